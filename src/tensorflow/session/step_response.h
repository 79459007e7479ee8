// StepResponse: what a step of a session gave, however it came: as tensors, or as gRPC's proto.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "session/step_body.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"

namespace farwrite::plugin {

class StepResponse final : public tensorflow::MutableRunStepResponseWrapper {
 public:
  // For gRPC to fill.
  tensorflow::OwnedProtoRunStepResponse* stock() { return &stock_; }
  // What came over Farwrite: with these tensors, and the metadata in mutable_metadata().
  void set_tensors(std::vector<NamedTensor> tensors) {
    tensors_ = std::move(tensors);
    has_tensors_ = true;
  }

  std::size_t num_tensors() const override {
    return has_tensors_ ? tensors_.size() : stock_.num_tensors();
  }
  const std::string& tensor_name(std::size_t i) const override {
    return has_tensors_ ? tensors_[i].name : stock_.tensor_name(i);
  }
  absl::Status TensorValue(std::size_t i, tensorflow::Tensor* tensor) const override {
    if (!has_tensors_) return stock_.TensorValue(i, tensor);
    *tensor = tensors_[i].tensor;
    return absl::OkStatus();
  }
  absl::Status AddTensorFromRunGraphResponse(const std::string& name,
                                             tensorflow::MutableRunGraphResponseWrapper* response,
                                             std::size_t i) override {
    return stock_.AddTensorFromRunGraphResponse(name, response, i);
  }
  const tensorflow::RunMetadata& metadata() const override { return stock_.metadata(); }
  tensorflow::RunMetadata* mutable_metadata() override { return stock_.mutable_metadata(); }
  absl::Status status() const override { return stock_.status(); }
  absl::StatusCode status_code() const override { return stock_.status_code(); }
  void set_status(const absl::Status& status) override { stock_.set_status(status); }

 protected:
  // Only a master that is handed stock() itself asks for it.
  tensorflow::RunStepResponse* get_proto() override { return nullptr; }

 private:
  tensorflow::OwnedProtoRunStepResponse stock_;
  std::vector<NamedTensor> tensors_;
  bool has_tensors_ = false;
};

}  // namespace farwrite::plugin
