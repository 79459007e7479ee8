#include "grpc/upgrade_frame.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/wire.h"
#include "grpc/http2_watcher.h"

namespace farwrite::grpc {
namespace {

constexpr std::string_view kMagic = "farwrite";
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kMaxText = 160;
constexpr std::string_view kOperation = "read an upgrade frame";

template <typename Array>
void put(core::WireWriter& writer, const Array& value) {
  writer.bytes({reinterpret_cast<const std::byte*>(value.data()), value.size()});
}

template <typename Array>
void get(core::WireReader& reader, Array& value) {
  const ByteView bytes = reader.bytes(value.size());
  if (bytes.size != value.size()) return;
  std::copy_n(reinterpret_cast<const std::uint8_t*>(bytes.data), bytes.size,
              reinterpret_cast<std::uint8_t*>(value.data()));
}

}  // namespace

std::string UpgradeFrame::encode() const {
  core::WireWriter writer;
  put(writer, kMagic);
  writer.u8(kVersion);
  writer.u8(static_cast<std::uint8_t>(kind));
  put(writer, client_nonce);
  put(writer, server_nonce);
  writer.string(local);
  writer.string(remote);
  writer.string(host);
  put(writer, device);
  writer.string(endpoint);
  writer.u64(stream);
  const std::size_t size = writer.size();
  std::string frame(kFrameHeadBytes, '\0');
  frame[0] = static_cast<char>(size >> 16);
  frame[1] = static_cast<char>(size >> 8);
  frame[2] = static_cast<char>(size);
  frame[3] = static_cast<char>(kUpgradeFrameType);
  frame.append(reinterpret_cast<const char*>(writer.view().data), size);
  return frame;
}

Result<UpgradeFrame> UpgradeFrame::decode(ByteView payload) {
  core::WireReader reader(payload);
  const ByteView magic = reader.bytes(kMagic.size());
  const std::uint8_t version = reader.u8();
  if (reader.ok() &&
      std::string_view(reinterpret_cast<const char*>(magic.data), magic.size) != kMagic) {
    return Status::error(StatusCode::kProtocolError, {.operation = kOperation},
                         "the frame is not Farwrite's", "find out who sends frames of type 0xfa");
  }
  if (reader.ok() && version != kVersion) {
    return Status::error(StatusCode::kVersionMismatch, {.operation = kOperation},
                         "the peer's is version " + std::to_string(version),
                         "run the same release of Farwrite on both sides");
  }
  UpgradeFrame frame;
  frame.kind = static_cast<UpgradeKind>(reader.u8());
  get(reader, frame.client_nonce);
  get(reader, frame.server_nonce);
  frame.local = reader.string(kMaxText);
  frame.remote = reader.string(kMaxText);
  frame.host = reader.string(kMaxText);
  get(reader, frame.device);
  frame.endpoint = reader.string(kMaxText);
  frame.stream = reader.u64();
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));
  if (frame.kind < UpgradeKind::kHello || frame.kind > UpgradeKind::kSwitch) {
    return Status::error(StatusCode::kProtocolError, {.operation = kOperation},
                         "its kind is unknown", "run the same release of Farwrite on both sides");
  }
  return frame;
}

}  // namespace farwrite::grpc
