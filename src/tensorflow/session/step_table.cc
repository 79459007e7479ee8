#include "session/step_table.h"

#include <utility>

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

std::string encode(const StepTable& table) {
  RecordWriter record(table.head.size() + kUsualRow * (table.rows.size() + 1));
  record.text(table.head);
  record.number(static_cast<std::uint32_t>(table.rows.size()));
  for (const StepTable::Row& row : table.rows) {
    record.text(row.name);
    record.number(static_cast<std::int32_t>(row.dtype));
    record.number(static_cast<std::uint8_t>(row.plain ? 1 : 0));
    record.number(static_cast<std::uint8_t>(row.shape.dims()));
    for (int axis = 0; axis < row.shape.dims(); ++axis) {
      record.number(static_cast<std::int64_t>(row.shape.dim_size(axis)));
    }
    record.number(row.bytes);
  }
  return record.bytes();
}

bool decode(std::string_view bytes, std::uint64_t tensor_bytes, StepTable* table) {
  if (tensor_bytes > CallMessage::kMostBytes) return false;
  RecordReader record(bytes);
  table->rows.clear();
  table->head = record.text();
  if (table->head.size() > INT32_MAX) return false;  // protobuf's own limit
  const std::uint32_t count = record.number<std::uint32_t>();
  std::uint64_t end = 0;
  for (std::uint32_t number = 0; number < count; ++number) {
    StepTable::Row row;
    row.name = record.text();
    row.dtype = static_cast<tensorflow::DataType>(record.number<std::int32_t>());
    row.plain = record.number<std::uint8_t>() != 0;
    const std::uint8_t rank = record.number<std::uint8_t>();
    for (int axis = 0; axis < rank; ++axis) {
      const std::int64_t size = record.number<std::int64_t>();
      if (!record.ok() || !row.shape.AddDimWithStatus(size).ok()) return false;
    }
    row.bytes = record.number<std::uint64_t>();
    if (!record.ok()) return false;
    row.at = CallMessage::aligned(end);
    if (row.at > tensor_bytes || row.bytes > tensor_bytes - row.at) return false;
    end = row.at + row.bytes;
    if (row.plain ? !describes(row.dtype, row.shape, row.bytes) : row.bytes > INT32_MAX) {
      return false;
    }
    table->rows.push_back(std::move(row));
  }
  return record.ok() && record.rest().empty() && end == tensor_bytes;
}

}  // namespace farwrite::plugin
