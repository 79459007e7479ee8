#include "device/control_messages.h"

#include "core/fields.h"
#include "core/status_wire.h"

namespace farwrite::device {
namespace {

constexpr std::size_t kMaxStatusBytes = 8192;

template <typename Message>
Result<Message> read(ByteView bytes) {
  return core::from_bytes<Message>(
      bytes, {.operation = "read a control message", .tail = core::TailBytes::kAllowed});
}

}  // namespace

template <typename Wire>
void LookupMessage::fields(Wire& wire) {
  wire(request, wait_ms, core::sized(name, kMaxNameBytes));
}

template <typename Wire>
void OpenMessage::fields(Wire& wire) {
  wire(request, core::enclosed(descriptor, RegionDescriptor::kMaxBytes));
}

template <typename Wire>
void ReplyMessage::fields(Wire& wire) {
  wire(request, core::status(status, kMaxStatusBytes));
  if (!status.ok()) return;
  wire(core::enclosed(descriptor, RegionDescriptor::kMaxBytes), lease,
       core::sized(description, kMaxDescriptionBytes));
}

template <typename Wire>
void ReleaseMessage::fields(Wire& wire) {
  wire(lease);
}

std::vector<std::byte> LookupMessage::to_bytes() const { return core::to_bytes(*this); }
std::vector<std::byte> OpenMessage::to_bytes() const { return core::to_bytes(*this); }
std::vector<std::byte> ReplyMessage::to_bytes() const { return core::to_bytes(*this); }
std::vector<std::byte> ReleaseMessage::to_bytes() const { return core::to_bytes(*this); }

Result<LookupMessage> LookupMessage::from_bytes(ByteView bytes) {
  return read<LookupMessage>(bytes);
}
Result<OpenMessage> OpenMessage::from_bytes(ByteView bytes) { return read<OpenMessage>(bytes); }
Result<ReplyMessage> ReplyMessage::from_bytes(ByteView bytes) { return read<ReplyMessage>(bytes); }
Result<ReleaseMessage> ReleaseMessage::from_bytes(ByteView bytes) {
  return read<ReleaseMessage>(bytes);
}

}  // namespace farwrite::device
