#include "edges/graph_analysis.h"

#include <memory>
#include <utility>

#include "edges/annotations.h"
#include "edges/edge_marks.h"
#include "edges/edges.h"
#include "edges/edges_json.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/lower_functional_ops.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/graph_def_util.h"
#include "tensorflow/core/public/session_options.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

absl::StatusOr<std::unique_ptr<tf::Graph>> parsed(const std::string& bytes) {
  tf::GraphDef message;
  if (!message.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("not a serialized GraphDef");
  }
  absl::Status status = tf::AddDefaultAttrsToGraphDef(&message, *tf::OpRegistry::Global(), 0, true);
  if (!status.ok()) return status;
  auto graph = std::make_unique<tf::Graph>(tf::OpRegistry::Global());
  tf::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  status = tf::ConvertGraphDefToGraph(options, std::move(message), graph.get());
  if (!status.ok()) return status;
  return graph;
}

}  // namespace

absl::StatusOr<std::string> lower_graph(const std::string& bytes) {
  absl::StatusOr<std::unique_ptr<tf::Graph>> graph = parsed(bytes);
  if (!graph.ok()) return graph.status();
  tf::FunctionLibraryDefinition functions((*graph)->flib_def());
  tf::SessionOptions session;
  session.config.mutable_graph_options()->mutable_optimizer_options()->set_do_function_inlining(
      true);
  tf::GraphOptimizationPassOptions options;
  options.session_options = &session;
  options.graph = &*graph;
  options.flib_def = &functions;
  const absl::Status lowered = tf::LowerFunctionalOpsPass().Run(options);
  if (!lowered.ok()) return lowered;
  return (*graph)->ToGraphDefDebug().SerializeAsString();
}

absl::StatusOr<std::string> analyze_graph(const std::string& bytes) {
  absl::StatusOr<std::unique_ptr<tf::Graph>> graph = parsed(bytes);
  if (!graph.ok()) return graph.status();
  std::string text;
  for (const MarkedEdge& marked : find_edges(**graph, &(*graph)->flib_def(), "")) {
    const EdgeNote& note = marked.note;
    const std::string tensor =
        note.producer.first + (note.control ? " (control)" : ":" + std::to_string(note.output));
    Edge edge(marked.source + ";" + note.target + ";" + tensor);
    edge.seen_in_graph();
    edge.describe(note);
    text += (text.empty() ? "" : ",") + edge_json(edge);
  }
  return "[" + text + "]";
}

}  // namespace farwrite::plugin
