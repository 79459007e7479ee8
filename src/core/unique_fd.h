// UniqueFd: a file descriptor with exactly one owner, closed when the owner goes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace farwrite::core {

// Move-only. Thread-compatible.
class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes ownership of `fd`; a negative number means none.
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  // Gives the descriptor up without closing it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  // Closes the descriptor held and takes `fd` instead. errno is kept, so that a failing call's
  // errno survives the clean-up on the way out.
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old < 0) return;
    const int saved_errno = errno;
    // Never retried: on Linux the number is free even after EINTR, and may be another owner's by
    // now.
    ::close(old);
    errno = saved_errno;
  }

 private:
  int fd_ = -1;
};

}  // namespace farwrite::core
