// How a reply's tensor is encoded: the bytes that TensorFlow's own gRPC server sends.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::experiments {

struct EncodedTensor {
  std::string head;
  // Its bytes follow the head: a large tensor is not copied. Uninitialized if all is in the head.
  tensorflow::Tensor content;
  bool content_follows = false;
};

// A RecvTensorResponse of `value`. kInvalidArgument for one of 2 GiB and more, which
// TensorResponse::ParseFrom() cannot read.
absl::Status encode_tensor(bool is_dead, const tensorflow::Tensor& value, EncodedTensor* encoded);

// Whether bytes that begin with this one were encoded from a tensor without plain bytes. Such bytes
// may have to be read twice.
bool begins_without_plain_bytes(unsigned char first);

}  // namespace farwrite::experiments
