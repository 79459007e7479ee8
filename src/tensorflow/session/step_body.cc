#include "session/step_body.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "farwrite/c_api.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

absl::Status parse(const StepTable::Row& row, const char* bytes, tf::Tensor* tensor) {
  tf::TensorProto proto;
  if (proto.ParseFromArray(bytes, static_cast<int>(row.bytes)) && tensor->FromProto(proto)) {
    return absl::OkStatus();
  }
  return absl::InternalError("Farwrite: the tensor " + std::string(row.name) +
                             " of a step cannot be parsed");
}

absl::Status copy(const StepTable::Row& row, const char* bytes, tf::Tensor* tensor) {
  *tensor = tf::Tensor(tf::cpu_allocator(), row.dtype, row.shape);
  if (!tensor->IsInitialized() && row.bytes > 0) {
    return absl::ResourceExhaustedError("Farwrite: no memory for the tensor " +
                                        std::string(row.name) + " of " + std::to_string(row.bytes) +
                                        " bytes");
  }
  if (row.bytes > 0) fw_copy(tensor->data(), bytes, row.bytes);
  return absl::OkStatus();
}

// `bytes`: of all tensors.
absl::Status copied_tensors(const StepTable& table, const char* bytes,
                            std::vector<NamedTensor>* tensors) {
  for (const StepTable::Row& row : table.rows) {
    NamedTensor& made = tensors->emplace_back();
    made.name = std::string(row.name);
    const absl::Status status = row.plain ? copy(row, bytes + row.at, &made.tensor)
                                          : parse(row, bytes + row.at, &made.tensor);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Views into `lent`, a tensor of bytes in which those of the tensors begin at `at`, a multiple of
// CallMessage::kAlignment.
absl::Status shared_tensors(const StepTable& table, const tf::Tensor& lent, std::uint64_t at,
                            std::vector<NamedTensor>* tensors) {
  const char* const bytes = static_cast<const char*>(lent.data()) + at;
  for (const StepTable::Row& row : table.rows) {
    NamedTensor& made = tensors->emplace_back();
    made.name = std::string(row.name);
    absl::Status status;
    if (!row.plain) {
      status = parse(row, bytes + row.at, &made.tensor);
    } else if (row.bytes == 0) {
      status = copy(row, bytes, &made.tensor);
    } else {
      const auto begin = static_cast<std::int64_t>(at + row.at);
      const tf::Tensor part = lent.Slice(begin, begin + static_cast<std::int64_t>(row.bytes));
      status = made.tensor.BitcastFrom(part, row.dtype, row.shape);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

CallBody PackedStep::body_of(std::shared_ptr<const PackedStep> step) {
  CallBody body;
  body.head = step->table_;
  body.bytes = step->tensor_bytes_;
  body.write_to = [step = std::move(step)](char* to) { step->write_tensors(to); };
  return body;
}

absl::Status PackedStep::pack(StepBody body, PackedStep* packed) {
  *packed = PackedStep();
  StepTable table;
  table.head = body.head;
  for (NamedTensor& named : body.tensors) {
    PackedTensor part;
    StepTable::Row row;
    row.name = named.name;
    row.dtype = named.tensor.dtype();
    row.plain = tf::DataTypeCanUseMemcpy(row.dtype);
    if (row.plain) {
      row.shape = named.tensor.shape();
      row.bytes = named.tensor.TotalBytes();
    } else {
      tf::TensorProto proto;
      named.tensor.AsProtoTensorContent(&proto);
      if (proto.ByteSizeLong() > INT32_MAX) {
        return absl::InvalidArgumentError("Farwrite: the tensor " + named.name +
                                          " has more than 2 GB as a TensorProto");
      }
      part.proto = proto.SerializeAsString();
      row.bytes = part.proto.size();
    }
    part.tensor = std::move(named.tensor);
    table.rows.push_back(std::move(row));
    packed->parts_.push_back(std::move(part));
  }
  packed->tensor_bytes_ = table.place();
  for (std::size_t i = 0; i < table.rows.size(); ++i) packed->parts_[i].at = table.rows[i].at;
  packed->table_ = encode(table);
  return absl::OkStatus();
}

void PackedStep::write_tensors(char* to) const {
  std::uint64_t end = 0;
  for (const PackedTensor& part : parts_) {
    std::memset(to + end, 0, part.at - end);  // nothing of what was there leaves the process
    const bool plain = part.proto.empty();
    const std::uint64_t bytes = plain ? part.tensor.TotalBytes() : part.proto.size();
    if (bytes > 0) fw_copy(to + part.at, plain ? part.tensor.data() : part.proto.data(), bytes);
    end = part.at + bytes;
  }
}

absl::Status own_tensors(const ArrivedCall& arrived, const StepTable& table,
                         std::vector<NamedTensor>* tensors) {
  // What was read is this process' already. But several tensors would hold each other's memory.
  if (arrived.is_own() && table.rows.size() == 1) {
    return shared_tensors(table, arrived.seen(), arrived.message().body_at(), tensors);
  }
  return copied_tensors(table, arrived.body().data(), tensors);
}

absl::Status viewed_tensors(const ArrivedCall& arrived, const StepTable& table,
                            std::vector<NamedTensor>* tensors) {
  if (arrived.message().all_inside()) return own_tensors(arrived, table, tensors);
  return shared_tensors(table, arrived.seen(), arrived.message().body_at(), tensors);
}

}  // namespace farwrite::plugin
