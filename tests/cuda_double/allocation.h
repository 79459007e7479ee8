// Allocation: physical memory of a GPU, which is a memfd here.
//
// The memfd's name holds its facts, so that another process can check a descriptor it receives. The
// seals keep its size as it is named. Nothing survives the last process that has it open or mapped.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include "double_options.h"

namespace farwrite::cuda_double {

inline constexpr std::size_t kGranularity = std::size_t{2} << 20;  // as on GPUs of today

std::size_t page_size();
// `size` must be less than the largest number less `unit`; `unit` is a power of two.
constexpr std::size_t round_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) & ~(unit - 1);
}

// Bytes and number of what exists in this process. Outlives every allocation.
struct Ledger {
  std::array<std::atomic<std::size_t>, kMostGpus> used{};  // of each GPU, by who allocated it
  std::atomic<std::size_t> allocations{0};
};

struct AllocationFacts {
  int device = 0;
  std::size_t size = 0;
  bool exportable = false;
  bool rdma = false;  // a NIC may reach it
};

class Allocation {
 public:
  // Null if the system has no memory or no descriptor for it.
  static std::shared_ptr<Allocation> create(Ledger& ledger, const AllocationFacts& facts);
  // From another allocation's descriptor, which stays the caller's. Null if it is not one.
  static std::shared_ptr<Allocation> import(Ledger& ledger, int descriptor);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  int device() const { return facts_.device; }
  std::size_t size() const { return facts_.size; }
  bool exportable() const { return facts_.exportable; }
  bool rdma() const { return facts_.rdma; }
  unsigned long long id() const { return id_; }
  // The mapping through which only the double reads and writes.
  std::byte* bytes() const { return bytes_; }
  // A descriptor of the caller's own, or -1.
  int duplicate() const;

 private:
  Allocation(Ledger& ledger, const AllocationFacts& facts, bool imported);
  bool map();

  Ledger& ledger_;
  const AllocationFacts facts_;
  const bool imported_;
  const unsigned long long id_;
  int descriptor_ = -1;
  std::byte* bytes_ = nullptr;
};

}  // namespace farwrite::cuda_double
