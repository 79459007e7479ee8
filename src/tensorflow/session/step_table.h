// StepTable: what a step's call or answer says of its tensors: their names, types, shapes and
// sizes; and its head, TensorFlow's own message without them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.pb.h"

namespace farwrite::plugin {

struct StepTable {
  struct Row {
    std::string_view name;
    tensorflow::DataType dtype = tensorflow::DT_INVALID;
    tensorflow::TensorShape shape;  // of a plain tensor
    bool plain = true;  // else its bytes are a TensorProto: strings, variants, resources
    std::uint64_t bytes = 0;
    std::uint64_t at = 0;  // where they begin: the tensors follow each other, each aligned

    template <typename Wire>
    void fields(Wire& wire);
  };

  std::string_view head;  // a RunStepRequest without feeds, or a RunStepResponse without tensors
  std::vector<Row> rows;

  template <typename Wire>
  void fields(Wire& wire);

  // Sets every row's place. Returns the bytes of all tensors, with the gaps between them.
  std::uint64_t place();
};

std::string encode(const StepTable& table);
// Views into `bytes`. False if it is malformed, or its tensors do not fill `tensor_bytes`.
bool decode(std::string_view bytes, std::uint64_t tensor_bytes, StepTable* table);

}  // namespace farwrite::plugin
