#include "edges/edges_json.h"

#include <algorithm>
#include <vector>

#include "stats/stats.h"
#include "tensorflow/core/framework/types.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

const char* name_of(Sizing sizing) {
  switch (sizing) {
    case Sizing::kStatic:
      return "static";
    case Sizing::kBounded:
      return "bounded";
    case Sizing::kDynamic:
      return "dynamic";
    case Sizing::kUnknown:
      break;
  }
  return "unknown";
}

// Why a tensor that went this way was copied, or nothing.
const char* reason_of(Way way) {
  switch (way) {
    case Way::kStagedForeign:
      return "staged: allocated outside registered memory";
    case Way::kStagedReceived:
      return "staged once: received from another task, and sent on";
    case Way::kStagedUnaligned:
      return "staged: a slice the receiver could not use as it lies";
    case Way::kStagedDevice:
      return "staged: copied out of the memory of its device";
    case Way::kSnapshot:
      return "snapshot: the memory of a ref variable, which may change while the peer reads it";
    case Way::kPull:
      return "left to gRPC: see the reasons in pulls_...";
    default:
      return "";
  }
}

// null where not even the rank is known; null for a size that is not.
std::string shape_json(const tf::PartialTensorShape& shape) {
  if (shape.unknown_rank()) return "null";
  std::string text = "[";
  for (int axis = 0; axis < shape.dims(); ++axis) {
    if (axis > 0) text += ",";
    text += shape.dim_size(axis) < 0 ? "null" : std::to_string(shape.dim_size(axis));
  }
  return text + "]";
}

std::string dtype_json(tf::DataType dtype) {
  return json_quoted(dtype == tf::DT_INVALID ? "" : tf::DataTypeString(dtype));
}

std::string node_json(const NodeName& node) {
  return "{\"name\":" + json_quoted(node.first) + ",\"op\":" + json_quoted(node.second) + "}";
}

const char* truth(bool value) { return value ? "true" : "false"; }

std::string note_json(const EdgeNote& note) {
  std::string text = "\"dtype\":" + dtype_json(note.dtype);
  text += std::string(",\"control\":") + truth(note.control);
  text += ",\"shape\":" + shape_json(note.shape);
  text += ",\"pinned\":" + shape_json(note.pinned);
  text += ",\"bound\":" + shape_json(note.bound);
  text += ",\"producer\":" + node_json(note.producer);
  text += ",\"consumers\":[";
  for (std::size_t i = 0; i < note.consumers.size(); ++i) {
    text += (i > 0 ? "," : "") + node_json(note.consumers[i]);
  }
  text += "],\"more_consumers\":" + std::to_string(note.more_consumers);
  return text;
}

std::string ways_json(const Edge& edge, std::string* reason) {
  std::string text;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Way::kCount); ++i) {
    const Way way = static_cast<Way>(i);
    const std::uint64_t times = edge.count(way);
    if (times == 0) continue;
    text +=
        (text.empty() ? "\"" : ",\"") + std::string(name_of(way)) + "\":" + std::to_string(times);
    if (*reason_of(way) != '\0' && times > most) {
      most = times;
      *reason = reason_of(way);
    }
  }
  return "{" + text + "}";
}

}  // namespace

const char* name_of(Way way) {
  switch (way) {
    case Way::kInline:
      return "inline";
    case Way::kZeroCopy:
      return "zero_copy";
    case Way::kLanded:
      return "landed";
    case Way::kStagedForeign:
      return "staged_foreign_memory";
    case Way::kStagedReceived:
      return "staged_received";
    case Way::kStagedUnaligned:
      return "staged_unaligned";
    case Way::kSnapshot:
      return "snapshot";
    case Way::kSerialized:
      return "serialized";
    case Way::kPull:
      return "pull";
    case Way::kLoopback:
      return "loopback";
    case Way::kLentAgain:
      return "lent_again";
    case Way::kStagedDevice:
      return "staged_device";
    case Way::kCount:
      break;
  }
  return "unknown";
}

std::string edge_json(const Edge& edge) {
  const EdgeAccount account = edge.account();
  const std::string& name = edge.name();
  const std::size_t target = name.find(';');
  const std::size_t tensor = name.find(';', target + 1);
  std::string reason;
  const std::string ways = ways_json(edge, &reason);
  if (!account.why_copied.empty()) reason = account.why_copied;
  std::string text = "{\"source\":" + json_quoted(name.substr(0, target));
  text += ",\"target\":" + json_quoted(name.substr(target + 1, tensor - target - 1));
  text += ",\"tensor\":" + json_quoted(name.substr(tensor + 1));
  text += std::string(",\"in_graph\":") + truth(edge.in_graph()) + ",";
  text += note_json(account.note);
  text += ",\"sizing\":" + json_quoted(name_of(edge.sizing()));
  text += ",\"max_bytes\":" + std::to_string(edge.max_bytes());
  text += std::string(",\"ref\":") + truth(edge.facts().ref);
  text += std::string(",\"variable\":") + truth(edge.facts().variable);
  text += ",\"ways\":" + ways;
  text += ",\"bytes\":" + std::to_string(edge.bytes());
  text += ",\"last_dtype\":" + dtype_json(account.last_dtype);
  text += ",\"last_shape\":" +
          (account.seen ? shape_json(tf::PartialTensorShape(account.last_shape.dim_sizes()))
                        : std::string("null"));
  text += std::string(",\"varied\":") + truth(account.varied);
  text += ",\"broke_annotation\":" + std::to_string(account.broke_annotation);
  text += ",\"reason\":" + json_quoted(reason);
  return text + "}";
}

std::string edges_json() {
  std::vector<std::shared_ptr<Edge>> edges = Edges::of_process().all();
  std::sort(edges.begin(), edges.end(),
            [](const auto& left, const auto& right) { return left->name() < right->name(); });
  std::string text;
  for (const auto& edge : edges) text += (text.empty() ? "" : ",") + edge_json(*edge);
  return "[" + text + "]";
}

}  // namespace farwrite::plugin
