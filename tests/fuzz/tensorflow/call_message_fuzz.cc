// Calls and their answers, and the status in an answer that is an error.
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "call/call_message.h"
#include "peer_text.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using plugin::CallKind;
using plugin::CallMessage;
using plugin::Method;

enum Kind : std::uint8_t { kMessage, kStatus, kKinds };

void run_message(std::string_view bytes) {
  CallMessage message;
  if (!plugin::decode(bytes, &message)) return;
  require(lies_in(bytes, message.inside), "a message refers to bytes that came");
  require(message.all_inside() || message.inside.empty() || message.head_inside(),
          "inside is the head, with the whole body or none");
  require(message.lent_bytes() >= message.body_at(), "what is lent holds the body");
  require(message.all_inside() || message.lent_bytes() - message.body_at() == message.body_bytes,
          "what is lent ends with the body");
  const std::string encoded = plugin::encode(message);
  require(encoded.size() == bytes.size(), "a message keeps its size on its way through us");
  CallMessage again;
  require(plugin::decode(encoded, &again), "what we encode can be decoded");
  require(plugin::encode(again) == encoded, "decoding what we encoded changes nothing");
  require(again.kind == message.kind && again.method == message.method && again.ok == message.ok &&
              again.call == message.call && again.server == message.server &&
              again.stream == message.stream && again.position == message.position &&
              again.head_bytes == message.head_bytes && again.body_bytes == message.body_bytes &&
              again.inside == message.inside,
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
  CallMessage call;
  call.call = 7;
  call.server = 0x1111;
  call.inside = "a RunGraphRequest";
  call.body_bytes = call.inside.size();
  CallMessage lent = call;
  lent.method = Method::kRegisterGraph;
  lent.inside = {};
  lent.body_bytes = 1 << 20;
  CallMessage answer = call;
  answer.kind = CallKind::kAnswer;
  CallMessage cancel = lent;
  cancel.kind = CallKind::kCancel;
  cancel.body_bytes = 0;
  CallMessage enqueue = call;
  enqueue.method = Method::kEnqueue;
  enqueue.stream = 3;
  enqueue.position = 11;
  CallMessage ended;
  ended.kind = CallKind::kEndStream;
  ended.stream = 3;
  CallMessage step = call;
  step.method = Method::kRunStep;
  step.inside = "a table, and what it lists";
  step.head_bytes = 7;
  step.body_bytes = step.inside.size() - step.head_bytes;
  CallMessage body_lent = step;
  body_lent.inside = step.inside.substr(0, step.head_bytes);
  body_lent.body_bytes = 1 << 20;
  CallMessage all_lent = body_lent;
  all_lent.kind = CallKind::kAnswer;
  all_lent.inside = {};
  absl::Status aborted = absl::AbortedError("the step ends");
  aborted.SetPayload("type.googleapis.com/tensorflow.DerivedStatus", absl::Cord("yes"));
  return {{"call", seed(kMessage, plugin::encode(call))},
          {"lent", seed(kMessage, plugin::encode(lent))},
          {"answer", seed(kMessage, plugin::encode(answer))},
          {"cancel", seed(kMessage, plugin::encode(cancel))},
          {"enqueue", seed(kMessage, plugin::encode(enqueue))},
          {"end_stream", seed(kMessage, plugin::encode(ended))},
          {"step", seed(kMessage, plugin::encode(step))},
          {"body_lent", seed(kMessage, plugin::encode(body_lent))},
          {"all_lent", seed(kMessage, plugin::encode(all_lent))},
          {"status", seed(kStatus, plugin::encode_status(aborted))}};
}

[[maybe_unused]] const bool kAdded = add_target({"call_message", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
