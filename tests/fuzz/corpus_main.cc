// Writes every target's seeds: farwrite_fuzz_corpus FOLDER. What was there before goes.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "target.h"

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
    return 2;
  }
  const std::filesystem::path root = arguments[1];
  std::filesystem::remove_all(root);
  for (const farwrite::fuzz::Target& target : farwrite::fuzz::targets()) {
    const std::filesystem::path folder = root / target.name;
    std::filesystem::create_directories(folder);
    for (const auto& [name, bytes] : target.seeds()) {
      std::ofstream file(folder / name, std::ios::binary);
      file.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
      file.close();
      if (!file) {
        std::fprintf(stderr, "cannot write %s\n", (folder / name).c_str());
        return 1;
      }
    }
  }
  return 0;
}
