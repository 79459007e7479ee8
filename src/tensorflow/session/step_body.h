// StepBody: a step's call or answer: TensorFlow's own message without its tensors, and the tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "session/step_table.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

struct NamedTensor {
  std::string name;
  tensorflow::Tensor tensor;
};

struct StepBody {
  std::string head;
  std::vector<NamedTensor> tensors;
};

// A body on its way out: its table, and where the bytes of its tensors lie. Holds the tensors.
class PackedStep {
 public:
  // Without a body: an empty table.
  PackedStep() = default;
  // A table that is no StepTable: the status of an answer that is an error.
  explicit PackedStep(std::string table) : table_(std::move(table)) {}
  // kInvalidArgument if a tensor has more bytes as a proto than protobuf can serialize.
  static absl::Status pack(StepBody body, PackedStep* packed);

  const std::string& table() const { return table_; }
  std::uint64_t tensor_bytes() const { return tensor_bytes_; }
  // Writes tensor_bytes() to `to`, gaps included.
  void write_tensors(char* to) const;

 private:
  struct Part {
    tensorflow::Tensor tensor;
    std::string proto;  // of a tensor that is not plain
    std::uint64_t at = 0;
  };

  std::string table_;
  std::uint64_t tensor_bytes_ = 0;
  std::vector<Part> parts_;
};

// The tensors of a body that has come, in memory of their own. `bytes`: of all tensors.
absl::Status copied_tensors(const StepTable& table, const char* bytes,
                            std::vector<NamedTensor>* tensors);
// The same as views into `lent`, a tensor of bytes in which those of the tensors begin at `at`, a
// multiple of StepMessage::kAlignment. Each view holds all of `lent`.
absl::Status shared_tensors(const StepTable& table, const tensorflow::Tensor& lent,
                            std::uint64_t at, std::vector<NamedTensor>* tensors);

}  // namespace farwrite::plugin
