// OwnedFd: a file descriptor with one owner, which closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace farwrite::bench {

// Move-only. Thread-compatible.
class OwnedFd {
 public:
  OwnedFd() = default;
  // Takes ownership of `fd`; a negative number means no descriptor.
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace farwrite::bench
