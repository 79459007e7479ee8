// Counted: counts the threads that are in a part of the code.
#pragma once

#include <atomic>

namespace farwrite::core {

class Counted {
 public:
  explicit Counted(std::atomic<int>& threads) : threads_(threads) { threads_.fetch_add(1); }
  ~Counted() { threads_.fetch_sub(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& threads_;
};

}  // namespace farwrite::core
