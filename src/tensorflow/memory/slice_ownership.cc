#include "memory/slice_ownership.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// Memory without an owner that may write: what a slice is tried on. No allocator is asked, because
// the plug-in's own is not installed yet.
class NotOwned final : public tf::TensorBuffer {
 public:
  NotOwned() : tf::TensorBuffer(memory_) {}
  std::size_t size() const override { return sizeof(memory_); }
  tf::TensorBuffer* root_buffer() override { return this; }
  bool OwnsMemory() const override { return false; }
  void FillAllocationDescription(tf::AllocationDescription*) const override {}

 private:
  alignas(64) char memory_[64] = {};  // two elements of any type
};

tf::Tensor slice(tf::DataType dtype) {
  auto* const buffer = new NotOwned;
  const tf::Tensor whole(dtype, tf::TensorShape({2}), buffer);
  buffer->Unref();  // the tensor has its own reference
  return whole.Slice(0, 1);
}

// In place of TensorBuffer::OwnsMemory, for slices.
bool owns_as_its_root(tf::TensorBuffer* buffer) {
  tf::TensorBuffer* const root = buffer->root_buffer();
  return root == buffer || root->OwnsMemory();
}

// Where the class' table has OwnsMemory, by the C++ ABI.
std::size_t slot_of_owns_memory() {
  bool (tf::TensorBuffer::* const member)() const = &tf::TensorBuffer::OwnsMemory;
  struct {
    std::uintptr_t function, adjustment;
  } parts;
  static_assert(sizeof(parts) == sizeof(member));
  std::memcpy(&parts, &member, sizeof(parts));
#if defined(__aarch64__) || defined(__arm__)
  const std::uintptr_t offset = parts.function;  // the adjustment says that it is virtual
#else
  const std::uintptr_t offset = parts.function - 1;
#endif
  return offset / sizeof(void*);
}

absl::Status error_of(const char* what) {
  return absl::ErrnoToStatus(errno, std::string("Farwrite: cannot keep kernels from writing into "
                                                "slices of received tensors: ") +
                                        what);
}

struct Range {
  std::uintptr_t begin;
  std::uintptr_t end;
};

// What is writable as it is. The dynamic linker has usually protected the classes' tables.
std::vector<Range> writable_memory() {
  std::ifstream maps("/proc/self/maps");
  std::vector<Range> found;
  std::string line;
  while (std::getline(maps, line)) {
    Range range = {};
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &range.begin, &range.end,
                    access) == 3 &&
        access[1] == 'w') {
      found.push_back(range);
    }
  }
  return found;
}

absl::Status replace(void** entry, void* function, const std::vector<Range>& writable_ranges) {
  const auto bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(entry) & ~(bytes - 1);
  const bool writable =
      std::any_of(writable_ranges.begin(), writable_ranges.end(),
                  [&](const Range& range) { return range.begin <= page && page < range.end; });
  void* const start = reinterpret_cast<void*>(page);
  if (!writable && mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) return error_of("mprotect");
  __atomic_store_n(entry, function, __ATOMIC_RELEASE);
  if (!writable && mprotect(start, bytes, PROT_READ) != 0) return error_of("mprotect");
  return absl::OkStatus();
}

absl::Status make_respect(tf::DataType dtype, const std::vector<Range>& writable) {
  const tf::Tensor tried = slice(dtype);
  if (!tried.RefCountIsOne()) return absl::OkStatus();
  tf::TensorBuffer* const buffer = tf::DMAHelper::buffer(const_cast<tf::Tensor*>(&tried));
  void** const table = *reinterpret_cast<void***>(buffer);
  const absl::Status replaced =
      replace(table + slot_of_owns_memory(), reinterpret_cast<void*>(&owns_as_its_root), writable);
  if (replaced.ok() && tried.RefCountIsOne()) {
    return absl::InternalError("Farwrite: TensorFlow's slices of " + tf::DataTypeString(dtype) +
                               " do not report the owner of their memory; the plug-in must be "
                               "compiled for this version of TensorFlow");
  }
  return replaced;
}

}  // namespace

absl::Status make_slices_respect_owners() {
  // Read once: a process with TensorFlow has a thousand ranges.
  const std::vector<Range> writable = writable_memory();
  // Each type of elements has a class. Others are never a peer's memory.
  for (int number = tf::DataType_MIN; number <= tf::DataType_MAX; ++number) {
    const auto dtype = static_cast<tf::DataType>(number);
    if (!tf::DataType_IsValid(number) || tf::IsRefType(dtype) || !tf::DataTypeCanUseMemcpy(dtype)) {
      continue;
    }
    const absl::Status status = make_respect(dtype, writable);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace farwrite::plugin
