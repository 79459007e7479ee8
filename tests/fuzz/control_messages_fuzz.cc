// What an attached peer says over the control connection.
#include "device/control_messages.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using device::LookupMessage;
using device::OpenMessage;
using device::ReleaseMessage;
using device::ReplyMessage;

enum Message : std::uint8_t { kLookup, kOpen, kReply, kRelease, kMessages };

void run(ByteView input) {
  Script script(input);
  const std::uint8_t message = script.u8() % kMessages;
  const ByteView bytes = script.rest();
  if (message == kLookup) {
    expect_round_trip<LookupMessage>(bytes);
    auto lookup = LookupMessage::from_bytes(bytes);
    if (lookup.ok()) require(lookup->name.size() <= kMaxNameBytes, "a name is bounded");
  } else if (message == kOpen) {
    expect_round_trip<OpenMessage>(bytes);
  } else if (message == kReply) {
    expect_round_trip<ReplyMessage>(bytes);
    auto reply = ReplyMessage::from_bytes(bytes);
    if (!reply.ok()) return;
    require(reply->description.size() <= kMaxDescriptionBytes, "a description is bounded");
    require(reply->status.ok() || reply->lease == 0, "a refusal hands out no lease");
  } else {
    expect_round_trip<ReleaseMessage>(bytes);
  }
}

Bytes seed(Message message, const Bytes& bytes) {
  return concatenated({{static_cast<std::byte>(message)}, bytes});
}

Seeds seeds() {
  RegionDescriptor region;
  region.epoch = 3;
  region.region_id = 5;
  region.length = 4096;
  region.keys = {{FabricKind::kShm, 9}};
  ReplyMessage found;
  found.request = 1;
  found.descriptor = region;
  found.lease = 4;
  found.description = "float32 (2, 2)";
  ReplyMessage missing;
  missing.request = 2;
  missing.status = Status(StatusCode::kNotFound, "no region of that name");
  return {{"lookup", seed(kLookup, LookupMessage{1, 1000, "weights"}.to_bytes())},
          {"lookup-longest",
           seed(kLookup, LookupMessage{1, 0, std::string(kMaxNameBytes, 'n')}.to_bytes())},
          {"open", seed(kOpen, OpenMessage{2, region}.to_bytes())},
          {"reply-found", seed(kReply, found.to_bytes())},
          {"reply-missing", seed(kReply, missing.to_bytes())},
          {"release", seed(kRelease, ReleaseMessage{4}.to_bytes())}};
}

[[maybe_unused]] const bool kAdded = add_target({"control_messages", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
