// The table of the tensors in a step.
#include <cstdint>
#include <string>
#include <string_view>

#include "call/call_message.h"
#include "peer_text.h"
#include "session/step_table.h"
#include "target.h"
#include "tensor/push_message.h"

namespace farwrite::fuzz {
namespace {

using plugin::CallMessage;
using plugin::StepTable;

void run_table(std::string_view bytes, std::uint64_t tensor_bytes) {
  StepTable table;
  if (!plugin::decode(bytes, tensor_bytes, &table)) return;
  require(lies_in(bytes, table.head), "the head came with the table");
  std::uint64_t end = 0;
  for (const StepTable::Row& row : table.rows) {
    require(lies_in(bytes, row.name), "a name came with the table");
    require(row.at % CallMessage::kAlignment == 0, "a tensor lies where kernels can use it");
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
  const std::uint64_t tensor_bytes = script.u64();
  run_table(text_of(script.rest()), tensor_bytes);
}

Bytes seed(StepTable table) {
  const std::uint64_t bytes = table.place();
  const std::string number(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  return concatenated({bytes_of(number), bytes_of(plugin::encode(table))});
}

Seeds seeds() {
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
  return {{"table", seed(table)}, {"targets", seed(targets)}};
}

[[maybe_unused]] const bool kAdded = add_target({"step_table", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
