// Runs every fuzz target over its corpus and over what once broke it, without libFuzzer: so every
// compiler and sanitizer covers them, and a machine without clang does, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "target.h"

namespace farwrite::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = FARWRITE_FUZZ_FOLDER;

Bytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Bytes bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(),
                 [](char each) { return static_cast<std::byte>(each); });
  return bytes;
}

std::map<std::string, Bytes> files_in(const fs::path& folder) {
  std::map<std::string, Bytes> files;
  if (!fs::exists(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = read(entry.path());
  }
  return files;
}

class FuzzTarget : public testing::TestWithParam<Target> {
 protected:
  void TearDown() override { set_input_name(""); }

  void run(const std::string& name, const Bytes& bytes) {
    set_input_name(std::string(GetParam().name) + "/" + name);
    GetParam().run(view_of(bytes));
  }
};

TEST_P(FuzzTarget, HoldsOverItsCorpusAndWhatOnceBrokeIt) {
  for (const char* kind : {"corpus", "regressions"}) {
    for (const auto& [name, bytes] : files_in(kFolder / kind / GetParam().name)) run(name, bytes);
  }
}

TEST_P(FuzzTarget, HoldsOverEveryTruncationOfItsSeeds) {
  for (const auto& [name, bytes] : GetParam().seeds()) {
    // Long seeds are long because of their payload: their ends are what matters.
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      if (length > 256 && length + 64 < bytes.size()) continue;
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(length);
      run(name + " cut to " + std::to_string(length), Bytes(bytes.begin(), end));
    }
  }
}

TEST_P(FuzzTarget, HoldsOverDamagedSeeds) {
  std::mt19937 random(20261121);
  for (const auto& [name, bytes] : GetParam().seeds()) {
    for (int round = 0; round < 100 && !bytes.empty(); ++round) {
      Bytes damaged = bytes;
      for (std::uint32_t left = 1 + random() % 4; left > 0; --left) {
        damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      }
      run(name + " damaged in round " + std::to_string(round), damaged);
    }
  }
}

TEST_P(FuzzTarget, HasTheSeedsOnDiskThatItsEncodersWrite) {
  EXPECT_FALSE(GetParam().seeds().empty());
  EXPECT_EQ(files_in(kFolder / "corpus" / GetParam().name), GetParam().seeds())
      << "run tools/make_fuzz_corpus.sh and commit what it writes";
}

INSTANTIATE_TEST_SUITE_P(Every, FuzzTarget, testing::ValuesIn(targets()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(FuzzFolders, BelongToATarget) {
  std::set<std::string> names;
  for (const Target& target : targets()) names.emplace(target.name);
  for (const char* kind : {"corpus", "regressions"}) {
    if (!fs::exists(kFolder / kind)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(kFolder / kind)) {
      EXPECT_TRUE(names.contains(entry.path().filename())) << entry.path();
    }
  }
}

}  // namespace
}  // namespace farwrite::fuzz
