#include "tensor_encoding.h"

#include <climits>
#include <cstdint>
#include <string_view>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::experiments {
namespace {

namespace tf = ::tensorflow;
using google::protobuf::io::CodedOutputStream;

// As in TensorFlow's grpc_tensor_coding.cc: larger tensors are not copied into the encoding.
constexpr std::size_t kLargeTensorBytes = 1024;
constexpr std::uint32_t kLengthDelimited = 2;

constexpr std::uint32_t tag_of(int field) {
  return static_cast<std::uint32_t>(field) << 3 | kLengthDelimited;
}

void append_length(int field, std::uint32_t bytes, std::string* text) {
  std::uint8_t buffer[20];
  std::uint8_t* end = CodedOutputStream::WriteVarint32ToArray(tag_of(field), buffer);
  end = CodedOutputStream::WriteVarint32ToArray(bytes, end);
  text->append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(end - buffer));
}

std::size_t length_bytes(int field, std::uint32_t bytes) {
  return CodedOutputStream::VarintSize32(tag_of(field)) + CodedOutputStream::VarintSize32(bytes);
}

}  // namespace

absl::Status encode_tensor(bool is_dead, const tf::Tensor& value, EncodedTensor* encoded) {
  tf::RecvTensorResponse response;
  if (is_dead) response.set_is_dead(true);
  response.set_send_start_micros(static_cast<std::int64_t>(tf::Env::Default()->NowMicros()));
  const auto too_large = [&] {
    return absl::InvalidArgumentError(
        "rpc-over-fabric: TensorFlow's encoding cannot have a tensor of " +
        std::to_string(value.TotalBytes()) + " bytes; it ends below 2 GiB");
  };
  if (!tf::DataTypeCanUseMemcpy(value.dtype())) {
    value.AsProtoTensorContent(response.mutable_tensor());
    if (response.ByteSizeLong() > INT_MAX) return too_large();
    response.AppendToString(&encoded->head);
    return absl::OkStatus();
  }
  tf::TensorProto skeleton;
  skeleton.set_dtype(value.dtype());
  value.shape().AsProto(skeleton.mutable_tensor_shape());
  const std::string described = skeleton.SerializeAsString();
  const std::string_view content = value.tensor_data();
  constexpr std::size_t kMostBesides = 1 << 16;
  if (content.size() > INT_MAX - kMostBesides || described.size() > kMostBesides / 2) {
    return too_large();
  }
  const auto bytes = static_cast<std::uint32_t>(content.size());
  std::string& head = encoded->head;
  response.AppendToString(&head);
  append_length(tf::RecvTensorResponse::kTensorFieldNumber,
                static_cast<std::uint32_t>(
                    described.size() +
                    length_bytes(tf::TensorProto::kTensorContentFieldNumber, bytes) + bytes),
                &head);
  head += described;
  append_length(tf::TensorProto::kTensorContentFieldNumber, bytes, &head);
  encoded->content_follows = bytes > kLargeTensorBytes;
  if (encoded->content_follows) {
    encoded->content = value;
  } else {
    head.append(content.data(), content.size());
  }
  return absl::OkStatus();
}

bool begins_without_plain_bytes(unsigned char first) {
  // A message that protobuf has written begins with its lowest field, and one of plain bytes with
  // the time.
  return first == tag_of(tf::RecvTensorResponse::kTensorFieldNumber);
}

}  // namespace farwrite::experiments
