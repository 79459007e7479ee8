// StepBody: a step's call or answer: TensorFlow's own message without its tensors, and the tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "call/call_body.h"
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
  // kInvalidArgument if a tensor has more bytes as a proto than protobuf can serialize.
  static absl::Status pack(StepBody body, PackedStep* packed);

  // The table is the head, and the tensors are the body. Holds the step.
  static CallBody body_of(std::shared_ptr<const PackedStep> step);

 private:
  struct PackedTensor {
    tensorflow::Tensor tensor;
    std::string proto;  // of a tensor that is not plain
    std::uint64_t at = 0;
  };

  // Writes tensor_bytes_ to `to`, gaps included.
  void write_tensors(char* to) const;

  std::string table_;
  std::uint64_t tensor_bytes_ = 0;
  std::vector<PackedTensor> parts_;
};

// What the table of a body that has come lists, in memory of this process.
absl::Status own_tensors(const ArrivedCall& arrived, const StepTable& table,
                         std::vector<NamedTensor>* tensors);
// The same as views of what was lent, where it was: each holds all of it.
absl::Status viewed_tensors(const ArrivedCall& arrived, const StepTable& table,
                            std::vector<NamedTensor>* tensors);

}  // namespace farwrite::plugin
