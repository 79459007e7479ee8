// What a verbs peer says besides RDMA: the private data of its connection, and its messages.
#include <algorithm>

#include "fabric/verbs/protocol.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using fabric::verbs::HelloMessage;
using fabric::verbs::JoinMessage;
using fabric::verbs::MessageHeader;
using fabric::verbs::MessageType;

void check_join(ByteView bytes) {
  expect_stable<JoinMessage>(bytes);
  auto message = JoinMessage::from_bytes(bytes);
  if (!message.ok()) return;
  const auto encoded = message->to_bytes();
  require(encoded.size() == fabric::verbs::kPrivateDataBytes, "rdma_cm carries no more");
  require(*JoinMessage::from_bytes({encoded.data(), encoded.size()}) == *message,
          "the fields survive");
}

void check_hello(ByteView bytes) {
  expect_stable<HelloMessage>(bytes);
  auto message = HelloMessage::from_bytes(bytes);
  if (!message.ok()) return;
  require(message->credits > 0, "a lane without credit would stand still");
  require(message->message_bytes >= fabric::verbs::kBounceBytes, "it takes our longest message");
}

void check_regions(ByteView bytes) {
  auto regions = fabric::verbs::regions_from_bytes(bytes);
  if (!regions.ok()) return require_refusal(regions.status());
  require(regions->size() <= fabric::verbs::kMaxRevokedAtOnce, "a revocation is bounded");
  const Bytes encoded = fabric::verbs::regions_to_bytes(*regions);
  require(encoded.size() == bytes.size && std::equal(encoded.begin(), encoded.end(), bytes.data),
          "a revocation has one encoding");
}

// As a lane reads a message: its header, and by its type what is behind it.
void check_message(ByteView bytes) {
  expect_stable<MessageHeader>(bytes);
  auto header = MessageHeader::from_bytes(bytes);
  if (!header.ok()) return;
  require(bytes.size >= MessageHeader::kBytes, "a header is whole");
  const ByteView payload(bytes.data + MessageHeader::kBytes, bytes.size - MessageHeader::kBytes);
  if (header->type == MessageType::kRevoke) check_regions(payload);
  if (header->type == MessageType::kHello) check_hello(payload);
}

void run(ByteView input) {
  Script script(input);
  return script.u8() % 2 == 0 ? check_join(script.rest()) : check_message(script.rest());
}

Bytes join(std::uint16_t lane, std::uint16_t lanes) {
  const auto bytes = JoinMessage::of({}, lane, lanes).to_bytes();
  return concatenated({Bytes{std::byte{0}}, Bytes(bytes.begin(), bytes.end())});
}

Bytes message(MessageType type, const Bytes& payload = {}) {
  MessageHeader header;
  header.type = type;
  header.tag = 7;
  header.value = 3;
  const auto bytes = header.to_bytes();
  return concatenated({Bytes{std::byte{1}}, Bytes(bytes.begin(), bytes.end()), payload});
}

Seeds seeds() {
  HelloMessage hello;
  hello.credits = 64;
  hello.message_bytes = fabric::verbs::kBounceBytes;
  hello.flush_address = 0x7f0012345000;
  hello.flush_key = 0x1234;
  hello.flush_by_atomic = true;
  return {{"join", join(0, 1)},
          {"join-last-lane", join(64, 65)},
          {"hello", message(MessageType::kHello, hello.to_bytes())},
          {"revoke", message(MessageType::kRevoke, fabric::verbs::regions_to_bytes({1, 2, 77}))},
          {"revoked", message(MessageType::kRevoked)},
          {"credit", message(MessageType::kCredit)},
          {"end", message(MessageType::kEnd)},
          {"message", message(MessageType::kMessage, Bytes(5, std::byte{'x'}))}};
}

[[maybe_unused]] const bool kAdded = add_target({"verbs_messages", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
