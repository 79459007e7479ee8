// Copies: the device's DeviceContext, by which TensorFlow copies into its memory and out of it.
//
// The rules are those of TensorFlow's GPU. A copy to the host waits for what was in the compute
// stream when it was asked for. A copy to the device does so if `sync_dst_compute` says it. The
// source is kept until the copy has ended. Who asks keeps the destination, and knows that the copy
// has ended when `done` is called, on a thread of TensorFlow. Copies overtake each other.
#pragma once

#include "absl/status/status.h"
#include "engine.h"
#include "faults.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"

namespace fartest {

class Copies final : public tensorflow::DeviceContext {
 public:
  // The engine has to live longer.
  explicit Copies(Engine* engine) : engine_(*engine) {}

  void CopyCPUTensorToDevice(const tensorflow::Tensor* cpu_tensor, tensorflow::Device* device,
                             tensorflow::Tensor* device_tensor, tensorflow::StatusCallback done,
                             bool sync_dst_compute) const override;
  void CopyDeviceTensorToCPU(const tensorflow::Tensor* device_tensor, absl::string_view tensor_name,
                             tensorflow::Device* device, tensorflow::Tensor* cpu_tensor,
                             tensorflow::StatusCallback done) override;
  void CopyTensorInSameDevice(const tensorflow::Tensor* input_tensor, tensorflow::Device* device,
                              tensorflow::Tensor* output_tensor,
                              tensorflow::StatusCallback done) const override;

  Engine& engine() const { return engine_; }

 private:
  void copy(Direction direction, const tensorflow::Tensor& from, const tensorflow::Tensor& to,
            bool after_compute, tensorflow::StatusCallback done) const;

  Engine& engine_;
};

}  // namespace fartest
