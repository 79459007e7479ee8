#include "session/step_table.h"

#include "base/record.h"
#include "call/call_message.h"
#include "tensor/push_message.h"

namespace farwrite::plugin {
namespace {

// Of a row: more than a name and a shape usually take.
constexpr std::size_t kUsualRow = 128;

}  // namespace

std::uint64_t StepTable::place() {
  std::uint64_t end = 0;
  for (Row& row : rows) {
    row.at = CallMessage::aligned(end);
    end = row.at + row.bytes;
  }
  return end;
}

template <typename Wire>
void StepTable::Row::fields(Wire& wire) {
  auto type = static_cast<std::int32_t>(dtype);
  auto rank = static_cast<std::uint8_t>(shape.dims());
  wire(core::sized(name, SIZE_MAX), type, plain, rank, ShapeField{shape, rank}, bytes);
  dtype = static_cast<tensorflow::DataType>(type);
  if constexpr (Wire::kReads) {
    wire.require(plain ? describes(dtype, shape, bytes) : bytes <= INT32_MAX,
                 "its size is not that of its shape");
  }
}

template <typename Wire>
void StepTable::fields(Wire& wire) {
  // A head has protobuf's own limit.
  wire(core::sized(head, INT32_MAX), core::list<std::uint32_t>(rows, UINT32_MAX, "too many rows"));
}

std::string encode(const StepTable& table) {
  return to_record(table, table.head.size() + kUsualRow * (table.rows.size() + 1));
}

bool decode(std::string_view bytes, std::uint64_t tensor_bytes, StepTable* table) {
  table->rows.clear();
  if (tensor_bytes > CallMessage::kMostBytes || !from_record(bytes, *table)) return false;
  std::uint64_t end = 0;
  for (StepTable::Row& row : table->rows) {
    row.at = CallMessage::aligned(end);
    if (row.at > tensor_bytes || row.bytes > tensor_bytes - row.at) return false;
    end = row.at + row.bytes;
  }
  return end == tensor_bytes;
}

}  // namespace farwrite::plugin
