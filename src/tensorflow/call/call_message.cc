#include "call/call_message.h"

#include "absl/strings/cord.h"
#include "base/record.h"

namespace farwrite::plugin {
namespace {

constexpr std::size_t kFieldBytes = 52;

}  // namespace

template <typename Wire>
void CallMessage::fields(Wire& wire) {
  wire(core::constant(kVersion, "another version"), kind, method, ok, call, server, stream,
       position, head_bytes, body_bytes, core::rest(inside));
  wire.require(kind >= CallKind::kCall && kind <= CallKind::kEndStream, "an unknown kind");
  wire.require(method >= Method::kRegisterGraph && method <= Method::kRunStep, "an unknown method");
  wire.require(head_bytes <= kMostBytes && body_bytes <= kMostBytes, "more than there can be");
  wire.require(inside.empty() || inside.size() == head_bytes || all_inside(), "parts of a head");
}

std::string encode(const CallMessage& message) {
  return to_record(message, kFieldBytes + message.inside.size());
}

bool decode(std::string_view bytes, CallMessage* message) { return from_record(bytes, *message); }

namespace {

struct StatusRecord {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view message;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(code, core::sized(message, SIZE_MAX));
  }
};

// One of a status's.
struct PayloadRecord {
  std::string_view url;
  std::string_view payload;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(core::sized(url, SIZE_MAX), core::sized(payload, SIZE_MAX));
  }
};

}  // namespace

std::string encode_status(const absl::Status& status) {
  std::string record =
      to_record(StatusRecord{status.code(), status.message()}, 8 + status.message().size());
  status.ForEachPayload([&record](std::string_view url, const absl::Cord& payload) {
    append_record(PayloadRecord{url, std::string(payload)}, &record);
  });
  return record;
}

absl::Status decode_status(std::string_view bytes) {
  core::FieldReader reader({bytes.data(), bytes.size()});
  StatusRecord record;
  reader(record);
  const bool known =
      record.code > absl::StatusCode::kOk && record.code <= absl::StatusCode::kUnauthenticated;
  absl::Status status(known ? record.code : absl::StatusCode::kUnknown, record.message);
  while (reader.remaining() > 0) {
    PayloadRecord one;
    reader(one);
    if (reader.ok()) status.SetPayload(one.url, absl::Cord(one.payload));
  }
  return status;
}

}  // namespace farwrite::plugin
