// TestDevice: a device of TensorFlow, of type FARTEST, for tests of what moves tensors.
//
// It computes on the processor, and behaves as a GPU does: its memory cannot be read by who is not
// the device (device_memory.h), computations and copies are asynchronous and in streams
// (streams.h, copies.h), and a computation is under way when its kernel has returned.
#pragma once

#include "copies.h"
#include "engine.h"
#include "tensorflow/core/common_runtime/local_device.h"

namespace fartest {

inline constexpr char kDeviceType[] = "FARTEST";

class TestDevice final : public tensorflow::LocalDevice {
 public:
  TestDevice(const tensorflow::SessionOptions& options, const std::string& name, Engine* engine);
  ~TestDevice() override;

  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes attributes) override;
  // The reference is the caller's.
  absl::Status TryGetDeviceContext(tensorflow::DeviceContext** context) override;
  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                   tensorflow::AllocatorAttributes attributes,
                                   tensorflow::Tensor* tensor) override;
  void CopyTensorInSameDevice(const tensorflow::Tensor* input_tensor,
                              tensorflow::Tensor* output_tensor,
                              const tensorflow::DeviceContext* device_context,
                              tensorflow::StatusCallback done) override;
  // Until all computations are done. As of a GPU, it does not wait for copies.
  absl::Status Sync() override;
  void Sync(const DoneCallback& done) override;

 private:
  Engine& engine_;
  Copies* const copies_;
  AcceleratorDeviceInfo info_;
};

}  // namespace fartest
