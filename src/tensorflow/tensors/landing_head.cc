#include "tensors/landing_head.h"

#include "peers/record.h"
#include "tensors/push_message.h"

namespace farwrite::plugin {
namespace {

constexpr std::uint32_t kMagic = 0x4c545746;  // "FWTL"

}  // namespace

bool encode(const LandingHead& head, LandingHeadBytes* bytes) {
  const int rank = head.shape.dims();
  if (rank > kMaxLandingRank || head.instance.size() > kMaxInstanceBytes) return false;
  RecordWriter record(kLandingHeadBytes);
  record.number(kMagic);
  record.number(head.slot);
  record.number(head.generation);
  record.number(head.receiver);
  record.number(head.sender);
  record.number(head.step);
  record.number(static_cast<std::int32_t>(head.dtype));
  record.number(static_cast<std::uint8_t>(rank));
  record.number(static_cast<std::uint8_t>(head.instance.size()));
  record.number(std::uint16_t{0});
  record.number(head.tensor_bytes);
  record.number(head.start);
  for (int axis = 0; axis < kMaxLandingRank; ++axis) {
    record.number(static_cast<std::int64_t>(axis < rank ? head.shape.dim_size(axis) : 0));
  }
  record.number(head.sent);
  record.raw(head.instance);
  bytes->fill(0);
  record.bytes().copy(bytes->data(), bytes->size());
  return true;
}

bool decode(const LandingHeadBytes& bytes, LandingHead* head) {
  RecordReader record({bytes.data(), bytes.size()});
  if (record.number<std::uint32_t>() != kMagic) return false;
  head->slot = record.number<std::uint32_t>();
  head->generation = record.number<std::uint64_t>();
  head->receiver = record.number<std::uint64_t>();
  head->sender = record.number<std::uint64_t>();
  head->step = record.number<std::int64_t>();
  head->dtype = static_cast<tensorflow::DataType>(record.number<std::int32_t>());
  const int rank = record.number<std::uint8_t>();
  const std::size_t instance = record.number<std::uint8_t>();
  if (record.number<std::uint16_t>() != 0) return false;
  head->tensor_bytes = record.number<std::uint64_t>();
  head->start = record.number<std::uint64_t>();
  if (rank > kMaxLandingRank || instance > kMaxInstanceBytes) return false;
  head->shape = tensorflow::TensorShape();
  for (int axis = 0; axis < kMaxLandingRank; ++axis) {
    const std::int64_t size = record.number<std::int64_t>();
    if (axis < rank && !head->shape.AddDimWithStatus(size).ok()) return false;
  }
  head->sent = record.number<std::int64_t>();
  head->instance = std::string(record.raw(instance));
  return record.ok() && describes(head->dtype, head->shape, head->tensor_bytes);
}

}  // namespace farwrite::plugin
