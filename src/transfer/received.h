// Received: a tensor and what keeps its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/completion.h"
#include "core/region.h"
#include "transfer/landed_tensor.h"
#include "transfer/tensor.h"

namespace farwrite::transfer {

// What a ReceivedTensor shares. Immutable.
class Received {
 public:
  Received() = default;
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;

  TensorSpec spec;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;
  Arrival arrival = Arrival::kPushed;

  // Keepers; what does not apply is empty.
  LandedTensor landed;
  Alias alias;
  std::shared_ptr<void> memory;
};

// Memory of the C++ heap, 64-byte aligned. Its pages are the kernel's until they are written.
Result<TensorMemory> allocate_on_heap(std::uint64_t bytes);

// Keeps memory that a transfer may still touch, even after the waiting for it has ended. Settled
// ones go with the next call.
void keep_until_settled(const Completion& completion, std::shared_ptr<void> memory);

// Where the data of an empty tensor is: aligned, and never read.
const std::byte* nowhere();

}  // namespace farwrite::transfer
