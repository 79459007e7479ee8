// Copies between the memory of a device, for example a GPU, and host memory, by TensorFlow's own
// DeviceContext. The context orders a copy behind what the device still computes.
//
// Both ends of a copy, the context and the callback live until the device has ended the copy,
// whatever becomes of the step meanwhile. The thread that gives up waiting just forgets about it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace farwrite::plugin {

// The memory of a device, or host memory.
struct DeviceMemory {
  tensorflow::Device* device = nullptr;  // null: host memory
  tsl::core::RefCountPtr<tensorflow::DeviceContext> context;

  // Where a kernel on `device`, which may be null, leaves or takes the tensor of these arguments.
  // TensorFlow's own worker decides it in the same way when it answers RecvTensor.
  static DeviceMemory of(tensorflow::Device* device,
                         const tensorflow::RendezvousInterface::Args& args);
};

// The host memory that the device's driver reaches best. For devices of either kind.
tensorflow::Allocator* host_allocator(tensorflow::Device* device);

// Called once, on a thread of the device's or in the call; it must not block. The
// copy no longer holds its source by then.
using Copied = std::function<void(absl::Status status, tensorflow::Tensor copy)>;

// Copies a tensor out of the memory of a device. Large bytes are copied into registered memory of
// `registered`, from where peers can take them; with null, no peer will. False, and `copied` is not
// called: registered memory has no room. `name` is the edge's, for messages.
bool copy_to_host(fw_device* registered, const DeviceMemory& from, const tensorflow::Tensor& tensor,
                  std::string_view name, Copied copied);

// Copies a tensor in host memory to where the consumer with these attributes wants it.
void copy_to_device(const DeviceMemory& to, const tensorflow::AllocatorAttributes& attributes,
                    tensorflow::Tensor tensor, std::string_view name, Copied copied);

// Copies under way now.
std::int64_t device_copies();

}  // namespace farwrite::plugin
