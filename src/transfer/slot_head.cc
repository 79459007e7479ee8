#include "transfer/slot_head.h"

#include <algorithm>
#include <string_view>

#include "core/wire.h"
#include "farwrite/tensor.h"
#include "transfer/checksum.h"

namespace farwrite::transfer {
namespace {

constexpr std::uint32_t kMagic = 0x48535746;  // "FWSH"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kChecksumOffset = 40 + 8 * kMaxDimensions;
static_assert(kChecksumOffset + 8 <= kSlotHeadBytes && kSlotHeadBytes % 64 == 0);

Status malformed(std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {"read the head of a slot"}, cause,
                       "run the same Farwrite release on both sides");
}

}  // namespace

std::array<std::byte, kSlotHeadBytes> SlotHead::encode() const {
  core::WireWriter writer;
  writer.u32(kMagic);
  writer.u16(kVersion);
  writer.u16(static_cast<std::uint16_t>(dims.size()));
  writer.u32(edge);
  writer.u32(0);
  writer.u64(generation);
  writer.u64(sequence);
  writer.u64(bytes);
  for (std::size_t i = 0; i < kMaxDimensions; ++i) writer.u64(i < dims.size() ? dims[i] : 0);
  writer.u64(checksum(writer.view()));
  std::array<std::byte, kSlotHeadBytes> result{};
  std::copy(writer.buffer().begin(), writer.buffer().end(), result.begin());
  return result;
}

Result<SlotHead> SlotHead::decode(const std::array<std::byte, kSlotHeadBytes>& bytes) {
  core::WireReader reader({bytes.data(), bytes.size()});
  const std::uint32_t magic = reader.u32();
  const std::uint16_t version = reader.u16();
  const std::uint16_t rank = reader.u16();
  SlotHead head;
  head.edge = reader.u32();
  (void)reader.u32();
  head.generation = reader.u64();
  head.sequence = reader.u64();
  head.bytes = reader.u64();
  if (magic != kMagic || version != kVersion) {
    return malformed("the slot holds no head of version 1");
  }
  if (rank > kMaxDimensions) return malformed("the rank is too large");
  for (std::size_t i = 0; i < kMaxDimensions; ++i) {
    const std::uint64_t dim = reader.u64();
    if (i < rank) head.dims.push_back(dim);
  }
  if (reader.u64() != checksum({bytes.data(), kChecksumOffset})) {
    return malformed("the checksum is wrong");
  }
  return head;
}

}  // namespace farwrite::transfer
