// What a client of a box asks, and what its server answers.
#include <utility>

#include "box/messages.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using box::Reply;
using box::Request;
using box::SegmentInfo;
using box::SegmentSpec;
using box::Verb;

enum Kind : std::uint8_t { kRequest, kReply, kInfos, kKinds };

// Messages say encode() and decode() where expect_round_trip() asks for bytes.
template <typename Record>
struct Message {
  Record record;

  Bytes to_bytes() const { return record.encode(); }
  static Result<Message> from_bytes(ByteView bytes) {
    auto record = Record::decode(bytes);
    if (!record.ok()) return record.status();
    return Message{*std::move(record)};
  }
};

struct Infos {
  std::vector<SegmentInfo> infos;

  Bytes to_bytes() const { return box::encode_infos(infos); }
  static Result<Infos> from_bytes(ByteView bytes) {
    auto infos = box::decode_infos(bytes);
    if (!infos.ok()) return infos.status();
    return Infos{*std::move(infos)};
  }
};

void run_request(ByteView bytes) {
  expect_round_trip<Message<Request>>(bytes);
  const auto request = Request::decode(bytes);
  if (!request.ok()) return;
  require(request.value().id != 0, "a request has a number");
  require(request.value().name.size() <= kMaxNameBytes, "a name is bounded");
  require(request.value().bytes.size() <= box::kInlineBytes, "the bytes of a change are bounded");
}

void run_infos(ByteView bytes) {
  expect_round_trip<Infos>(bytes);
  const auto infos = box::decode_infos(bytes);
  if (!infos.ok()) return;
  for (const SegmentInfo& info : infos.value()) {
    const auto size = box::checked_bytes(info.spec);
    require(size.ok() && size.value() == info.bytes, "a segment has the bytes of its shape");
  }
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t kind = script.u8() % kKinds;
  if (kind == kRequest) return run_request(script.rest());
  if (kind == kReply) return expect_round_trip<Message<Reply>>(script.rest());
  run_infos(script.rest());
}

Bytes seed(Kind kind, const Bytes& bytes) {
  return concatenated({{static_cast<std::byte>(kind)}, bytes});
}

SegmentSpec matrix() {
  SegmentSpec spec;
  spec.name = "weights";
  spec.dims = {2, 3};
  return spec;
}

Seeds seeds() {
  Request create;
  create.verb = Verb::kCreate;
  create.id = 1;
  create.spec = matrix();
  create.bytes = {std::byte{'{'}, std::byte{'}'}};
  Request attach;
  attach.verb = Verb::kAttachName;
  attach.id = 2;
  attach.name = "weights";
  Request change;
  change.verb = Verb::kChange;
  change.id = 3;
  change.key = 7;
  change.change.operation = box::Operation::kAccumulate;
  change.change.length = 4;
  change.bytes.resize(4);
  change.change.factor = std::int64_t{3};
  Request wait;
  wait.verb = Verb::kWaitVersion;
  wait.id = 5;
  wait.key = 7;
  wait.number = 6;
  wait.epoch = 8;
  Request lease;
  lease.verb = Verb::kLease;
  lease.id = 4;
  lease.key = 7;
  Reply refused;
  refused.id = 3;
  refused.status = Status(StatusCode::kNotFound, "the segment was freed");
  Reply leased;
  leased.id = 4;
  leased.version = {.epoch = 8, .version = 5};
  leased.number = 1;
  leased.buffer = 2;
  leased.row = 1;
  leased.attaches = true;
  SegmentInfo info;
  info.spec = matrix();
  info.spec.description = "{}";
  info.key = 7;
  info.bytes = 24;
  return {{"create", seed(kRequest, create.encode())},
          {"attach", seed(kRequest, attach.encode())},
          {"change", seed(kRequest, change.encode())},
          {"wait", seed(kRequest, wait.encode())},
          {"lease", seed(kRequest, lease.encode())},
          {"refused", seed(kReply, refused.encode())},
          {"leased", seed(kReply, leased.encode())},
          {"infos", seed(kInfos, box::encode_infos({info, info}))}};
}

[[maybe_unused]] const bool kAdded = add_target({"box_messages", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
