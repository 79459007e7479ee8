// The two modes: a payload as a protobuf message and as plain bytes.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "payloads.grpc.pb.h"

using Serialized = farwrite::bench::Payload;
using Plain = grpc::ByteBuffer;

// The asynchronous service whose method takes a message of this type.
template <typename Message>
struct ServiceOf;
template <>
struct ServiceOf<Serialized> {
  using Type = farwrite::bench::Payloads::AsyncService;
};
template <>
struct ServiceOf<Plain> {
  using Type =
      farwrite::bench::Payloads::WithRawMethod_Exchange<farwrite::bench::Payloads::Service>;
};

// Makes payloads.
class PayloadMaker {
 public:
  explicit PayloadMaker(std::vector<std::size_t> buffers);

  // Makes the payload of a call: allocates every buffer and marks it.
  //
  // Serialized copies the buffers out of one block of data, as a program copies its tensors into a
  // message. Plain allocates slices and leaves the bytes between the marks as they are.
  void make(std::uint8_t call, Serialized& message) const;
  void make(std::uint8_t call, Plain& message) const;

  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<std::size_t> buffers_;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> data_;
};

// Reads all of a payload. Returns whether it is a whole payload of `bytes`; sets the call's number.
bool read_payload(const Serialized& message, std::size_t bytes, std::uint8_t& call);
bool read_payload(const Plain& message, std::size_t bytes, std::uint8_t& call);

// An acknowledgement.
inline Serialized empty_message(Serialized*) { return {}; }
Plain empty_message(Plain*);
// Whether a reply is one.
bool is_empty(const Serialized& message);
bool is_empty(const Plain& message);
