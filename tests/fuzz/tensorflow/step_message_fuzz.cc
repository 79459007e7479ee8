// Messages of steps, and the table of the tensors in a step.
#include <cstdint>
#include <string>
#include <string_view>

#include "peer_text.h"
#include "session/step_message.h"
#include "session/step_table.h"
#include "target.h"
#include "tensor/push_message.h"

namespace farwrite::fuzz {
namespace {

using plugin::StepKind;
using plugin::StepMessage;
using plugin::StepTable;

enum Kind : std::uint8_t { kMessage, kTable, kKinds };

void run_message(std::string_view bytes) {
  StepMessage message;
  if (!plugin::decode(bytes, &message)) return;
  require(lies_in(bytes, message.inside), "a message refers to bytes that came");
  require(message.all_inside() || message.inside.empty() || message.table_inside(),
          "inside is the table, with all tensors or none");
  require(message.lent_bytes() >= message.tensors_at(), "what is lent holds the tensors");
  require(
      message.all_inside() || message.lent_bytes() - message.tensors_at() == message.tensor_bytes,
      "what is lent ends with the tensors");
  const std::string encoded = plugin::encode(message);
  require(encoded.size() == bytes.size(), "a message keeps its size on its way through us");
  StepMessage again;
  require(plugin::decode(encoded, &again), "what we encode can be decoded");
  require(plugin::encode(again) == encoded, "decoding what we encoded changes nothing");
  require(again.kind == message.kind && again.ok == message.ok && again.call == message.call &&
              again.server == message.server && again.table_bytes == message.table_bytes &&
              again.tensor_bytes == message.tensor_bytes && again.inside == message.inside,
          "a message is the same on its way through us");
}

void run_table(std::string_view bytes, std::uint64_t tensor_bytes) {
  StepTable table;
  if (!plugin::decode(bytes, tensor_bytes, &table)) return;
  require(lies_in(bytes, table.head), "the head came with the table");
  std::uint64_t end = 0;
  for (const StepTable::Row& row : table.rows) {
    require(lies_in(bytes, row.name), "a name came with the table");
    require(row.at % StepMessage::kAlignment == 0, "a tensor lies where kernels can use it");
    require(row.at >= end && row.at <= tensor_bytes && row.bytes <= tensor_bytes - row.at,
            "a tensor lies in the bytes that came, behind the one before");
    require(!row.plain || plugin::describes(row.dtype, row.shape, row.bytes),
            "a plain tensor has the bytes of its type and shape");
    end = row.at + row.bytes;
  }
  require(table.place() == tensor_bytes && end == tensor_bytes, "the tensors fill what came");
  const std::string encoded = plugin::encode(table);
  StepTable again;
  require(plugin::decode(encoded, tensor_bytes, &again), "what we encode can be decoded");
  require(plugin::encode(again) == encoded, "decoding what we encoded changes nothing");
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t kind = script.u8() % kKinds;
  if (kind == kMessage) return run_message(text_of(script.rest()));
  const std::uint64_t tensor_bytes = script.u64();
  run_table(text_of(script.rest()), tensor_bytes);
}

Bytes seed(const StepMessage& message) {
  return concatenated({{static_cast<std::byte>(kMessage)}, bytes_of(plugin::encode(message))});
}

Bytes seed(StepTable table) {
  const std::uint64_t bytes = table.place();
  const std::string number(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  return concatenated(
      {{static_cast<std::byte>(kTable)}, bytes_of(number), bytes_of(plugin::encode(table))});
}

Seeds seeds() {
  StepMessage call;
  call.call = 7;
  call.server = 0x1111;
  call.inside = "a table, and what it lists";
  call.table_bytes = 7;
  call.tensor_bytes = call.inside.size() - call.table_bytes;
  StepMessage lent = call;
  lent.inside = call.inside.substr(0, call.table_bytes);
  lent.tensor_bytes = 1 << 20;
  StepMessage all_lent = lent;
  all_lent.kind = StepKind::kAnswer;
  all_lent.inside = {};
  StepMessage cancel;
  cancel.kind = StepKind::kCancel;
  StepTable table;
  table.head = "a RunStepRequest";
  StepTable::Row matrix;
  matrix.name = "fed:0";
  matrix.dtype = tensorflow::DT_FLOAT;
  matrix.shape = tensorflow::TensorShape({2, 3});
  matrix.bytes = 24;
  StepTable::Row empty = matrix;
  empty.shape = tensorflow::TensorShape({0, 3});
  empty.bytes = 0;
  StepTable::Row words;
  words.name = "words:0";
  words.dtype = tensorflow::DT_STRING;
  words.plain = false;
  words.bytes = 100;
  table.rows = {matrix, words, empty, matrix};
  StepTable targets;
  targets.head = "targets only";
  return {{"call", seed(call)},     {"lent", seed(lent)},   {"all-lent", seed(all_lent)},
          {"cancel", seed(cancel)}, {"table", seed(table)}, {"targets", seed(targets)}};
}

[[maybe_unused]] const bool kAdded = add_target({"step_message", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
