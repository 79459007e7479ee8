#include "tensor/device_copy.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "memory/arena_allocator.h"
#include "memory/staging.h"
#include "stats/stats.h"
#include "tensorflow/core/common_runtime/copy_tensor.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

std::atomic<std::int64_t> copies_under_way{0};

// Registered memory as a tensor's buffer.
class RegisteredBuffer final : public tf::TensorBuffer {
 public:
  RegisteredBuffer(Staged owner, void* data, std::size_t bytes)
      : TensorBuffer(data), owner_(std::move(owner)), bytes_(bytes) {}

  std::size_t size() const override { return bytes_; }
  tf::AllocatorMemoryType GetMemoryType() const override {
    return tf::AllocatorMemoryType::kHostPageable;
  }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<std::int64_t>(bytes_));
    proto->set_allocator_name("farwrite_staged");
  }

 private:
  const Staged owner_;
  const std::size_t bytes_;
};

// Owns everything until the device has ended the copy.
struct Copy {
  tf::Device* device = nullptr;
  tsl::core::RefCountPtr<tf::DeviceContext> context;
  tf::Tensor source;
  tf::Tensor destination;
  std::string name;
  Copied copied;
};
// The callbacks of TensorFlow are copyable functions.
using CopyRef = std::shared_ptr<Copy>;

CopyRef make_copy(const DeviceMemory& memory, tf::Tensor source, std::string_view name,
                  Copied copied) {
  auto copy = std::make_shared<Copy>();
  copy->device = memory.device;
  if (memory.context != nullptr) copy->context = tsl::core::GetNewRef(memory.context.get());
  copy->source = std::move(source);
  copy->name = std::string(name);
  copy->copied = std::move(copied);
  copies_under_way.fetch_add(1, std::memory_order_relaxed);
  return copy;
}

void finish(const CopyRef& copy, const char* direction, const absl::Status& status) {
  copy->source = tf::Tensor();  // its owner may have it back before a kernel computes with the copy
  const Copied copied = std::move(copy->copied);
  tf::Tensor destination = std::move(copy->destination);
  copies_under_way.fetch_sub(1, std::memory_order_relaxed);
  if (status.ok()) {
    copied(status, std::move(destination));
    return;
  }
  copied(absl::Status(status.code(), "Farwrite: cannot copy " + copy->name + direction +
                                         "the memory of " + copy->device->name() + ": " +
                                         std::string(status.message())),
         tf::Tensor());
}

void finish_to_host(const CopyRef& copy, const absl::Status& status) {
  if (status.ok()) count(stats().staged_device_bytes, copy->source.TotalBytes());
  finish(copy, " out of ", status);
}

void finish_to_device(const CopyRef& copy, const absl::Status& status) {
  const std::uint64_t bytes = copy->source.TotalBytes();
  if (status.ok()) {
    count(stats().staged_device_receives);
    count(stats().staged_device_bytes, bytes);
  }
  finish(copy, " into ", status);
}

absl::Status no_context() {
  return absl::InternalError("TensorFlow gave no device context for the copy");
}

absl::Status no_memory(const tf::Tensor& tensor) {
  return absl::ResourceExhaustedError("there is no memory for " +
                                      std::to_string(tensor.TotalBytes()) + " bytes");
}

void start_to_device(const CopyRef& copy) {
  if (copy->source.TotalBytes() == 0) return finish_to_device(copy, absl::OkStatus());
  if (copy->context == nullptr) return finish_to_device(copy, no_context());
  copy->context->CopyCPUTensorToDevice(
      &copy->source, copy->device, &copy->destination,
      [copy](const absl::Status& status) { finish_to_device(copy, status); },
      // The new memory may be what earlier work of the device still reads.
      /*sync_dst_compute=*/true);
}

}  // namespace

DeviceMemory DeviceMemory::of(tf::Device* device, const tf::RendezvousInterface::Args& args) {
  DeviceMemory memory;
  if (device == nullptr || args.alloc_attrs.on_host()) return memory;
  const auto* const info = device->tensorflow_accelerator_device_info();
  if (info == nullptr || device->device_type() == tf::DEVICE_CPU) return memory;
  // A session that keeps its state apart renames the server's devices, which live longer.
  memory.device = static_cast<tf::Device*>(device->UnderlyingDevice());
  tf::DeviceContext* const context =
      args.device_context != nullptr ? args.device_context : info->default_context;
  if (context != nullptr) memory.context = tsl::core::GetNewRef(context);
  return memory;
}

tf::Allocator* host_allocator(tf::Device* device) {
  tf::AllocatorAttributes attributes;
  attributes.set_on_host(true);
  attributes.set_gpu_compatible(true);
  return device->GetAllocator(attributes);
}

bool copy_to_host(fw_device* registered, const DeviceMemory& from, const tf::Tensor& tensor,
                  std::string_view name, Copied copied) {
  const std::uint64_t bytes = tensor.TotalBytes();
  const bool plain = tf::DataTypeCanUseMemcpy(tensor.dtype());
  tf::Tensor destination;
  if (plain && registered != nullptr && bytes > ArenaAllocator::kThreshold) {
    void* memory = nullptr;
    Staged room = registered_room(registered, bytes, &memory);
    if (room == nullptr) return false;
    auto* const buffer = new RegisteredBuffer(std::move(room), memory, bytes);
    destination = tf::Tensor(tensor.dtype(), tensor.shape(), buffer);
    buffer->Unref();  // the tensor has its own reference
  } else {
    destination = tf::Tensor(host_allocator(from.device), tensor.dtype(), tensor.shape());
  }
  const CopyRef copy = make_copy(from, tensor, name, std::move(copied));
  copy->destination = std::move(destination);
  if (tensor.NumElements() == 0) {
    finish_to_host(copy, absl::OkStatus());
  } else if (copy->context == nullptr) {
    finish_to_host(copy, no_context());
  } else if (!copy->destination.IsInitialized()) {
    finish_to_host(copy, no_memory(tensor));
  } else {
    // Like CopyDeviceTensorToCPU, and also for variants, which hold tensors of the device.
    tf::Allocator* const host = host_allocator(from.device);
    tf::CopyDeviceToHost(&copy->source, host, host, copy->name, copy->device, &copy->destination,
                         copy->context.get(),
                         [copy](const absl::Status& status) { finish_to_host(copy, status); });
  }
  return true;
}

void copy_to_device(const DeviceMemory& to, const tf::AllocatorAttributes& attributes,
                    tf::Tensor tensor, std::string_view name, Copied copied) {
  const CopyRef copy = make_copy(to, std::move(tensor), name, std::move(copied));
  tf::Allocator* const allocator = to.device->GetAllocator(attributes);
  const tf::AllocationAttributes at_once(/*retry_on_failure=*/false,
                                         /*allocation_will_be_logged=*/false, nullptr);
  const auto allocate = [copy, allocator](const tf::AllocationAttributes& how) {
    copy->destination = tf::Tensor(allocator, copy->source.dtype(), copy->source.shape(), how);
    return copy->destination.IsInitialized();
  };
  if (allocate(at_once)) return start_to_device(copy);
  // The device's allocator waits for memory that others are about to free. The caller is a poller
  // and does not.
  tf::Env::Default()->SchedClosure([copy, allocate] {
    if (allocate(tf::AllocationAttributes())) {
      start_to_device(copy);
    } else {
      finish_to_device(copy, no_memory(copy->source));
    }
  });
}

std::int64_t device_copies() { return copies_under_way.load(std::memory_order_relaxed); }

}  // namespace farwrite::plugin
