// Control calls and their answers, and the status in an answer that is an error.
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "control/control_message.h"
#include "peer_text.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using plugin::ControlKind;
using plugin::ControlMessage;
using plugin::ControlMethod;

enum Kind : std::uint8_t { kMessage, kStatus, kKinds };

void run_message(std::string_view bytes) {
  ControlMessage message;
  if (!plugin::decode(bytes, &message)) return;
  require(lies_in(bytes, message.body), "a message refers to bytes that came");
  require(message.body.empty() || message.body.size() == message.body_bytes,
          "a body inside is whole");
  const std::string encoded = plugin::encode(message);
  require(encoded.size() == bytes.size(), "a message keeps its size on its way through us");
  ControlMessage again;
  require(plugin::decode(encoded, &again), "what we encode can be decoded");
  require(plugin::encode(again) == encoded, "decoding what we encoded changes nothing");
  require(again.kind == message.kind && again.method == message.method && again.ok == message.ok &&
              again.call == message.call && again.server == message.server &&
              again.stream == message.stream && again.position == message.position &&
              again.body == message.body,
          "a message is the same on its way through us");
}

void run_status(std::string_view bytes) {
  const absl::Status failure = plugin::decode_status(bytes);
  require(!failure.ok(), "a failure is one, whatever its code");
  const absl::Status again = plugin::decode_status(plugin::encode_status(failure));
  require(again == failure, "a status and its payloads are the same on their way through us");
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t kind = script.u8() % kKinds;
  const std::string_view bytes = text_of(script.rest());
  if (kind == kMessage) return run_message(bytes);
  run_status(bytes);
}

Bytes seed(Kind kind, const std::string& bytes) {
  return concatenated({{static_cast<std::byte>(kind)}, bytes_of(bytes)});
}

Seeds seeds() {
  ControlMessage call;
  call.call = 7;
  call.server = 0x1111;
  call.body = "a RunGraphRequest";
  call.body_bytes = call.body.size();
  ControlMessage lent = call;
  lent.method = ControlMethod::kRegisterGraph;
  lent.body = {};
  lent.body_bytes = 1 << 20;
  ControlMessage answer = call;
  answer.kind = ControlKind::kAnswer;
  ControlMessage cancel = lent;
  cancel.kind = ControlKind::kCancel;
  cancel.body_bytes = 0;
  ControlMessage enqueue = call;
  enqueue.method = ControlMethod::kEnqueue;
  enqueue.stream = 3;
  enqueue.position = 11;
  ControlMessage ended;
  ended.kind = ControlKind::kEndStream;
  ended.stream = 3;
  absl::Status aborted = absl::AbortedError("the step ends");
  aborted.SetPayload("type.googleapis.com/tensorflow.DerivedStatus", absl::Cord("yes"));
  return {{"call", seed(kMessage, plugin::encode(call))},
          {"lent", seed(kMessage, plugin::encode(lent))},
          {"answer", seed(kMessage, plugin::encode(answer))},
          {"cancel", seed(kMessage, plugin::encode(cancel))},
          {"enqueue", seed(kMessage, plugin::encode(enqueue))},
          {"end_stream", seed(kMessage, plugin::encode(ended))},
          {"status", seed(kStatus, plugin::encode_status(aborted))}};
}

[[maybe_unused]] const bool kAdded = add_target({"control_message", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
