// Payloads in the two modes, as a protobuf message and as plain bytes, and how they are checked.
//
// A payload is one stream of bytes, wherever its buffers begin. The byte at every 4 KiB of the
// stream, and its last byte, hold a mark that depends on the call and on the place. The first byte
// holds the call's number itself. gRPC may cut the stream anywhere, so a mark is a single byte.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "payloads.grpc.pb.h"

using Serialized = farwrite::bench::Payload;
using Plain = grpc::ByteBuffer;

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

// Reads every cache line of a payload, and checks its marks. Returns the call's number, or nothing
// if it is not a whole payload of `bytes`.
std::optional<std::uint8_t> read_payload(const Serialized& message, std::size_t bytes);
std::optional<std::uint8_t> read_payload(const Plain& message, std::size_t bytes);

// Whether a reply is an acknowledgement.
bool is_empty(const Serialized& message);
bool is_empty(const Plain& message);
