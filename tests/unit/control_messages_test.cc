#include "device/control_messages.h"

#include <gtest/gtest.h>

#include "core/wire.h"
#include "unit/damage.h"

namespace farwrite::device {
namespace {

ReplyMessage some_reply() {
  ReplyMessage reply;
  reply.request = 7;
  reply.descriptor.length = 99;
  reply.descriptor.keys = {{FabricKind::kShm, 3}};
  reply.lease = 12;
  reply.description = "float32[4]";
  return reply;
}

// What every message promises. Fields may be appended by a newer peer.
template <typename Message>
void expect_robust(const Message& message) {
  std::vector<std::byte> bytes = message.to_bytes();
  expect_truncations_refused(bytes, Message::from_bytes);
  survive_noise(bytes, Message::from_bytes);
  auto read = Message::from_bytes(view_of(bytes));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read.value().to_bytes(), bytes);
  const std::vector<std::byte> known = bytes;
  bytes.resize(bytes.size() + 5, std::byte{0xee});
  read = Message::from_bytes(view_of(bytes));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read.value().to_bytes(), known);
}

TEST(ControlMessages, SurviveTheWire) {
  expect_robust(LookupMessage{1, 2, "name"});
  OpenMessage open;
  open.request = 3;
  open.descriptor.length = 8;
  expect_robust(open);
  expect_robust(some_reply());
  ReplyMessage refusal;
  refusal.request = 4;
  refusal.status = Status(StatusCode::kNotFound, "nothing there");
  expect_robust(refusal);
  expect_robust(ReleaseMessage{5});
}

TEST(ControlMessages, KeepEveryField) {
  const auto lookup =
      LookupMessage::from_bytes(view_of(LookupMessage{1, 2, "name"}.to_bytes())).value();
  EXPECT_EQ(lookup.request, 1u);
  EXPECT_EQ(lookup.wait_ms, 2u);
  EXPECT_EQ(lookup.name, "name");
  const auto reply = ReplyMessage::from_bytes(view_of(some_reply().to_bytes())).value();
  EXPECT_EQ(reply.request, 7u);
  EXPECT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.descriptor.length, 99u);
  EXPECT_EQ(reply.lease, 12u);
  EXPECT_EQ(reply.description, "float32[4]");
}

TEST(ControlMessages, CarryAnErrorAsItIs) {
  ReplyMessage refusal;
  refusal.status = Status(StatusCode::kResourceExhausted, "full; raise it");
  const auto read = ReplyMessage::from_bytes(view_of(refusal.to_bytes())).value();
  EXPECT_EQ(read.status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(read.status.message(), "full; raise it");
}

TEST(ControlMessages, RefuseOversizedNames) {
  const LookupMessage fits{1, 0, std::string(kMaxNameBytes, 'n')};
  EXPECT_TRUE(LookupMessage::from_bytes(view_of(fits.to_bytes())).ok());
  const LookupMessage over{1, 0, std::string(kMaxNameBytes + 1, 'n')};
  EXPECT_EQ(LookupMessage::from_bytes(view_of(over.to_bytes())).status().code(),
            StatusCode::kProtocolError);
  ReplyMessage reply = some_reply();
  reply.description.assign(kMaxDescriptionBytes + 1, 'd');
  EXPECT_FALSE(ReplyMessage::from_bytes(view_of(reply.to_bytes())).ok());
}

}  // namespace
}  // namespace farwrite::device
