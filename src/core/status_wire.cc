#include "core/status_wire.h"

#include <string>
#include <string_view>
#include <utility>

#include "core/wire.h"

namespace farwrite::core {
namespace {

constexpr std::string_view kReadStatus = "read a status";
constexpr std::size_t kMaxMessageBytes = 4096;

}  // namespace

std::vector<std::byte> status_to_bytes(const Status& status) {
  WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(status.code()));
  writer.string(std::string_view(status.message()).substr(0, kMaxMessageBytes));
  return writer.take();
}

Status status_from_bytes(ByteView bytes, Status& status) {
  WireReader reader(bytes);
  const std::uint8_t code = reader.u8();
  std::string message = reader.string(kMaxMessageBytes);
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadStatus, TailBytes::kAllowed));
  if (code > static_cast<std::uint8_t>(StatusCode::kInternal)) {
    return Status::error(StatusCode::kProtocolError, {kReadStatus}, "an unknown status code",
                         "run the same Farwrite release on both sides");
  }
  status = code == 0 ? Status() : Status(static_cast<StatusCode>(code), std::move(message));
  return Status();
}

}  // namespace farwrite::core
