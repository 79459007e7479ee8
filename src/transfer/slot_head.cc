#include "transfer/slot_head.h"

#include <algorithm>
#include <string_view>

#include "core/fields.h"
#include "transfer/checksum.h"

namespace farwrite::transfer {
namespace {

constexpr std::uint32_t kMagic = 0x48535746;  // "FWSH"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kDescriptionOffset = 32;
constexpr std::size_t kChecksumOffset = kDescriptionOffset + kMaxSlotDescriptionBytes;
static_assert(kChecksumOffset + 8 == kSlotHeadBytes && kSlotHeadBytes % 64 == 0);

constexpr core::Reading kReading = {.operation = "read the head of a slot",
                                    .tail = core::TailBytes::kAllowed};
constexpr std::string_view kNoHead = "the slot holds no head of version 1";

}  // namespace

template <typename Wire>
void SlotHead::fields(Wire& wire) {
  auto length = static_cast<std::uint16_t>(description.size());
  wire(core::constant(kMagic, kNoHead), core::constant(kVersion, kNoHead), length, slot,
       core::Reserved<4>(), generation, bytes);
  wire.require(length <= kMaxSlotDescriptionBytes, "the description is too long");
  wire.exactly(description, length);
}

std::array<std::byte, kSlotHeadBytes> SlotHead::encode() const {
  auto result = core::to_array<kSlotHeadBytes>(*this);
  const std::uint64_t sum = checksum({result.data(), kDescriptionOffset + description.size()});
  const auto raw = core::to_array<sizeof sum>(sum);
  std::copy(raw.begin(), raw.end(), result.begin() + kChecksumOffset);
  return result;
}

Result<SlotHead> SlotHead::decode(const std::array<std::byte, kSlotHeadBytes>& bytes) {
  Result<SlotHead> head = core::from_bytes<SlotHead>({bytes.data(), bytes.size()}, kReading);
  if (!head.ok()) return head;
  core::FieldReader reader({bytes.data() + kChecksumOffset, 8});
  reader(core::constant(checksum({bytes.data(), kDescriptionOffset + head->description.size()}),
                        "the checksum is wrong"));
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReading));
  return head;
}

}  // namespace farwrite::transfer
