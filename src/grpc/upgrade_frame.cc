#include "grpc/upgrade_frame.h"

#include <array>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "grpc/http2_watcher.h"

namespace farwrite::grpc {
namespace {

constexpr std::array<char, 8> kMagic = {'f', 'a', 'r', 'w', 'r', 'i', 't', 'e'};
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kMaxText = 160;
constexpr core::Reading kReading = {.operation = "read an upgrade frame",
                                    .remedy = "run the same release of Farwrite on both sides"};

}  // namespace

template <typename Wire>
void UpgradeFrame::fields(Wire& wire) {
  auto magic = kMagic;
  auto version = kVersion;
  wire(magic, version);
  if constexpr (Wire::kReads) {
    if (wire.ok() && magic != kMagic) {
      return wire.fail(Status::error(StatusCode::kProtocolError, {kReading.operation},
                                     "the frame is not Farwrite's",
                                     "find out who sends frames of type 0xfa"));
    }
    if (wire.ok() && version != kVersion) {
      return wire.fail(Status::error(StatusCode::kVersionMismatch, {kReading.operation},
                                     "the peer's is version " + std::to_string(version),
                                     kReading.remedy));
    }
  }
  wire(kind, client_nonce, server_nonce, core::sized(local, kMaxText),
       core::sized(remote, kMaxText), core::sized(host, kMaxText), device,
       core::sized(endpoint, kMaxText), stream);
  wire.require(kind >= UpgradeKind::kHello && kind <= UpgradeKind::kSwitch, "its kind is unknown");
}

std::string UpgradeFrame::encode() const {
  const std::vector<std::byte> payload = core::to_bytes(*this);
  const std::size_t size = payload.size();
  std::string frame(kFrameHeadBytes, '\0');
  frame[0] = static_cast<char>(size >> 16);
  frame[1] = static_cast<char>(size >> 8);
  frame[2] = static_cast<char>(size);
  frame[3] = static_cast<char>(kUpgradeFrameType);
  frame.append(reinterpret_cast<const char*>(payload.data()), size);
  return frame;
}

Result<UpgradeFrame> UpgradeFrame::decode(ByteView payload) {
  return core::from_bytes<UpgradeFrame>(payload, kReading);
}

}  // namespace farwrite::grpc
