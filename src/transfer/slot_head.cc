#include "transfer/slot_head.h"

#include <algorithm>
#include <string_view>

#include "core/wire.h"
#include "transfer/checksum.h"

namespace farwrite::transfer {
namespace {

constexpr std::uint32_t kMagic = 0x48535746;  // "FWSH"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kDescriptionOffset = 32;
constexpr std::size_t kChecksumOffset = kDescriptionOffset + kMaxSlotDescriptionBytes;
static_assert(kChecksumOffset + 8 == kSlotHeadBytes && kSlotHeadBytes % 64 == 0);

Status malformed(std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {"read the head of a slot"}, cause,
                       "run the same Farwrite release on both sides");
}

}  // namespace

std::array<std::byte, kSlotHeadBytes> SlotHead::encode() const {
  core::WireWriter writer;
  writer.u32(kMagic);
  writer.u16(kVersion);
  writer.u16(static_cast<std::uint16_t>(description.size()));
  writer.u32(slot);
  writer.u32(0);
  writer.u64(generation);
  writer.u64(bytes);
  writer.bytes({description.data(), description.size()});
  std::array<std::byte, kSlotHeadBytes> result{};
  std::copy(writer.buffer().begin(), writer.buffer().end(), result.begin());
  core::WireWriter sum;
  sum.u64(checksum(writer.view()));
  std::copy(sum.buffer().begin(), sum.buffer().end(), result.begin() + kChecksumOffset);
  return result;
}

Result<SlotHead> SlotHead::decode(const std::array<std::byte, kSlotHeadBytes>& bytes) {
  core::WireReader reader({bytes.data(), bytes.size()});
  const std::uint32_t magic = reader.u32();
  const std::uint16_t version = reader.u16();
  const std::uint16_t length = reader.u16();
  SlotHead head;
  head.slot = reader.u32();
  (void)reader.u32();
  head.generation = reader.u64();
  head.bytes = reader.u64();
  if (magic != kMagic || version != kVersion) {
    return malformed("the slot holds no head of version 1");
  }
  if (length > kMaxSlotDescriptionBytes) return malformed("the description is too long");
  const auto description = bytes.begin() + kDescriptionOffset;
  head.description.assign(description, description + length);
  core::WireReader sum({bytes.data() + kChecksumOffset, 8});
  if (sum.u64() != checksum({bytes.data(), kDescriptionOffset + length})) {
    return malformed("the checksum is wrong");
  }
  return head;
}

}  // namespace farwrite::transfer
