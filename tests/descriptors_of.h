// How many descriptors of this process refer to the file of `fd`. All descriptors of the process
// are no measure: threads of earlier tests may still close theirs.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>

namespace farwrite {

inline std::size_t descriptors_of(int fd) {
  struct stat wanted{};
  if (::fstat(fd, &wanted) != 0) return 0;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat found{};
    if (::stat(entry.path().c_str(), &found) != 0) continue;
    if (found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino) ++count;
  }
  return count;
}

}  // namespace farwrite
