#include "device/control_messages.h"

#include "core/status_wire.h"
#include "core/wire.h"
#include "device/hello.h"

namespace farwrite::device {
namespace {

constexpr std::string_view kReadMessage = "read a control message";
constexpr std::size_t kMaxStatusBytes = 8192;

void write_blob(core::WireWriter& writer, const std::vector<std::byte>& bytes) {
  writer.blob({bytes.data(), bytes.size()});
}

}  // namespace

std::vector<std::byte> LookupMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u64(request);
  writer.u64(wait_ms);
  writer.string(name);
  return writer.take();
}

Result<LookupMessage> LookupMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  LookupMessage message;
  message.request = reader.u64();
  message.wait_ms = reader.u64();
  message.name = reader.string(kMaxNameBytes);
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadMessage, core::TailBytes::kAllowed));
  return message;
}

std::vector<std::byte> OpenMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u64(request);
  write_blob(writer, descriptor.to_bytes());
  return writer.take();
}

Result<OpenMessage> OpenMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  OpenMessage message;
  message.request = reader.u64();
  const ByteView descriptor = reader.blob(RegionDescriptor::kMaxBytes);
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadMessage, core::TailBytes::kAllowed));
  auto decoded = RegionDescriptor::from_bytes(descriptor);
  if (!decoded.ok()) return decoded.status();
  message.descriptor = *std::move(decoded);
  return message;
}

std::vector<std::byte> ReplyMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u64(request);
  write_blob(writer, core::status_to_bytes(status));
  if (status.ok()) {
    write_blob(writer, descriptor.to_bytes());
    writer.u64(lease);
    writer.string(description);
  }
  return writer.take();
}

Result<ReplyMessage> ReplyMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  ReplyMessage message;
  message.request = reader.u64();
  const ByteView status = reader.blob(kMaxStatusBytes);
  if (reader.ok()) FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(status, message.status));
  if (message.status.ok()) {
    const ByteView descriptor = reader.blob(RegionDescriptor::kMaxBytes);
    message.lease = reader.u64();
    message.description = reader.string(kMaxDescriptionBytes);
    if (reader.ok()) {
      auto decoded = RegionDescriptor::from_bytes(descriptor);
      if (!decoded.ok()) return decoded.status();
      message.descriptor = *std::move(decoded);
    }
  }
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadMessage, core::TailBytes::kAllowed));
  return message;
}

std::vector<std::byte> ReleaseMessage::to_bytes() const {
  core::WireWriter writer;
  writer.u64(lease);
  return writer.take();
}

Result<ReleaseMessage> ReleaseMessage::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  ReleaseMessage message;
  message.lease = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadMessage, core::TailBytes::kAllowed));
  return message;
}

}  // namespace farwrite::device
