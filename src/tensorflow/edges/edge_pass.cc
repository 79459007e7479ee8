// The graph passes: what TensorFlow's graphs say of their edges between tasks.
//
// They run in the process that places and partitions a graph. A session's master sees the whole
// graph; each of its workers partitions its own part again, and finds the master's notes there. For
// a function both is done by the task that calls it, and nothing by those that run the parts: see
// send_kernel.cc.
//
// What goes wrong here is never a step's matter: then less is known.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "edges/annotations.h"
#include "edges/edge_facts.h"
#include "edges/edge_marks.h"
#include "edges/edge_note.h"
#include "edges/edges.h"
#include "edges/shape_inference.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/env_time.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;
using PassOptions = tf::GraphOptimizationPassOptions;

// Late, so that function calls, branches and loops are lowered already.
constexpr int kPhase = 1000;

std::string function_of(const PassOptions& options) {
  return options.function_def == nullptr ? "" : options.function_def->signature().name();
}

class RememberPass final : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const PassOptions& options) override {
    if (options.graph != nullptr) remember(function_of(options), **options.graph);
    return absl::OkStatus();
  }
};

class MarkPass final : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const PassOptions& options) override {
    if (options.graph == nullptr) return absl::OkStatus();
    const std::uint64_t started = tf::EnvTime::NowMicros();
    const auto edges = find_edges(**options.graph, options.flib_def, function_of(options));
    write_notes(edges);
    VLOG(1) << "Farwrite: " << (*options.graph)->num_op_nodes() << " nodes, " << edges.size()
            << " edges between tasks, analyzed in " << tf::EnvTime::NowMicros() - started << " us";
    return absl::OkStatus();
  }
};

// The names of a `_Send` or `_Recv` between two tasks.
struct Ends {
  std::string source, target, tensor, producer, consumer;
};

std::optional<Ends> ends_of(const tf::Node& node) {
  Ends ends;
  bool feed_or_fetch = false;
  const bool named = tf::TryGetNodeAttr(node.attrs(), "send_device", &ends.source) &&
                     tf::TryGetNodeAttr(node.attrs(), "recv_device", &ends.target) &&
                     tf::TryGetNodeAttr(node.attrs(), "tensor_name", &ends.tensor) &&
                     tf::TryGetNodeAttr(node.attrs(), "client_terminated", &feed_or_fetch);
  if (!named || feed_or_fetch || in_one_task(ends.source, ends.target)) return std::nullopt;
  tf::TryGetNodeAttr(node.attrs(), "_src", &ends.producer);
  tf::TryGetNodeAttr(node.attrs(), "_dst", &ends.consumer);
  return ends;
}

// The note of this output for this device among those that the master wrote on the producer.
std::optional<EdgeNote> written_on(const tf::Node& producer, int output, const Ends& ends) {
  std::vector<std::string> notes;
  tf::TryGetNodeAttr(producer.attrs(), kNotesOut, &notes);
  for (const std::string& bytes : notes) {
    std::optional<EdgeNote> note = decode_note(bytes);
    if (note && note->output == output && note->target == ends.target) return note;
  }
  return std::nullopt;
}

// Where only the order matters, the partitioner sends an empty tensor of its own, which waits for
// the producer, and puts an Identity behind its `_Recv`.
const tf::Node* awaited(const tf::Node& sent, const Ends& ends) {
  if (sent.name() == ends.producer || !sent.IsConstant()) return nullptr;
  for (const tf::Edge* const edge : sent.in_edges()) {
    if (edge->IsControlEdge() && edge->src()->name() == ends.producer) return edge->src();
  }
  return nullptr;
}

// What the master wrote; without it, what the partition says.
EdgeNote note_of_send(const tf::Edge& input, const Ends& ends) {
  const tf::Node* const control = awaited(*input.src(), ends);
  const tf::Node& producer = control == nullptr ? *input.src() : *control;
  const int output = control == nullptr ? input.src_output() : kControlOutput;
  if (const std::optional<EdgeNote> note = written_on(producer, output, ends)) return *note;
  EdgeNote note;
  note.target = ends.target;
  note.producer = {producer.name(), producer.type_string()};
  note.output = output;
  note.control = control != nullptr;
  note.dtype = tf::BaseType(input.src()->output_type(input.src_output()));
  if (!ends.consumer.empty()) note.consumers.emplace_back(ends.consumer, "");
  return note;
}

EdgeNote note_of_receive(const tf::Node& receive, const Ends& ends) {
  EdgeNote own;
  own.target = ends.target;
  own.producer = {ends.producer, ""};
  own.dtype = receive.output_type(0);
  for (const tf::Edge* const edge : receive.out_edges()) {
    const tf::Node& consumer = *edge->dst();
    if (edge->IsControlEdge() || !consumer.IsOp()) continue;
    std::string bytes;
    if (tf::TryGetNodeAttr(consumer.attrs(), kNoteIn + std::to_string(edge->dst_input()), &bytes)) {
      const std::optional<EdgeNote> note = decode_note(bytes);
      if (note && note->target == ends.target) return *note;
    }
    if (consumer.IsIdentity() && (absl::StartsWith(consumer.name(), ends.producer + "_S") ||
                                  absl::StartsWith(consumer.name(), ends.producer + "/_"))) {
      own.control = true;
      own.output = kControlOutput;
      own.shape_known = true;
      own.shape = tf::PartialTensorShape({0});
      own.consumers = {{ends.consumer, ""}};
      return own;
    }
    own.add_consumer(consumer);
  }
  return own;
}

class EdgePass final : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const PassOptions& options) override {
    if (options.partition_graphs == nullptr) return absl::OkStatus();
    for (const auto& [device, graph] : *options.partition_graphs) look_for_ref_variables(*graph);
    for (const auto& [device, graph] : *options.partition_graphs) {
      look(graph.get(), options.flib_def);
    }
    return absl::OkStatus();
  }

 private:
  struct SentOutput {
    tf::Node* send;
    const tf::Edge* input;
    Ends ends;
    EdgeNote note;
  };

  static void look(tf::Graph* graph, const tf::FunctionLibraryDefinition* functions) {
    std::vector<SentOutput> sent;
    std::vector<const tf::Node*> unknown;
    for (tf::Node* const node : graph->op_nodes()) {
      if (!node->IsSend() && !node->IsRecv()) continue;
      const std::optional<Ends> ends = ends_of(*node);
      const tf::Edge* input = nullptr;
      if (!ends) continue;
      if (node->IsRecv()) {
        declare(*ends, note_of_receive(*node, *ends));
      } else if (node->input_edge(0, &input).ok()) {
        sent.push_back({node, input, *ends, note_of_send(*input, *ends)});
        if (!sent.back().note.shape_known) unknown.push_back(input->src());
      }
    }
    // Where a stock master wrote nothing, the part that is here says something too.
    const Shapes shapes =
        unknown.empty() ? Shapes() : infer_shapes(*graph, functions, unknown, fed_shapes());
    for (SentOutput& edge : sent) {
      const auto found = shapes.find(edge.input->src());
      if (!edge.note.shape_known && found != shapes.end()) {
        edge.note.shape = found->second[static_cast<std::size_t>(edge.input->src_output())];
        edge.note.shape_known = true;
      }
      const EdgeFacts facts = look_back(*edge.send);
      edge.note.ref = facts.ref;
      edge.note.variable = facts.variable;
      edge.send->AddAttr(kNote, encode(edge.note));
      declare(edge.ends, edge.note);
    }
  }

  static void declare(const Ends& ends, const EdgeNote& note) {
    Edges::of_process().declare(ends.source, ends.target, ends.tensor)->describe(note);
  }
};

REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::PRE_PLACEMENT, kPhase, RememberPass);
REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, kPhase, MarkPass);
REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_PARTITIONING, kPhase, EdgePass);

}  // namespace
}  // namespace farwrite::plugin
