// EdgeNote: what a graph says of one edge between two tasks.
//
// Who sees the whole graph is seldom who sends: in sessions the master does, in functions the task
// that calls them. So a note travels, as a node's attribute: from the pass on the whole graph on
// the producer and its consumers, from the pass on the partitions on the `_Send` itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.pb.h"

namespace tensorflow {
class Node;
}

namespace farwrite::plugin {

// A node's name and its op.
using NodeName = std::pair<std::string, std::string>;

struct EdgeNote {
  std::string target;  // device
  NodeName producer;
  int output = 0;
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  bool control = false;      // no tensor, "it has happened"
  bool shape_known = false;  // whether shape inference saw the producer's graph
  tensorflow::PartialTensorShape shape;
  // What the user says: this shape, or at most this one. Unknown rank: nothing was said.
  tensorflow::PartialTensorShape pinned;
  tensorflow::PartialTensorShape bound;
  std::vector<NodeName> consumers;
  std::uint64_t more_consumers = 0;  // that are not named
  bool ref = false;                  // see EdgeFacts
  bool variable = false;

  void add_consumer(const tensorflow::Node& node);
};

// The output of an edge that is only waited for.
inline constexpr int kControlOutput = -1;

// Attributes. Of a producer: one note for each output and device; of a consumer: with the input's
// number behind it; of a `_Send`.
inline constexpr char kNotesOut[] = "_farwrite_out";
inline constexpr char kNoteIn[] = "_farwrite_in_";
inline constexpr char kNote[] = "_farwrite_edge";
// What the user says, with the output's number behind it.
inline constexpr char kPinned[] = "_farwrite_pin_shape_";
inline constexpr char kBound[] = "_farwrite_max_shape_";

std::string encode(const EdgeNote& note);
std::optional<EdgeNote> decode_note(const std::string& bytes);

}  // namespace farwrite::plugin
