#include "edges/edge_marks.h"

#include <map>
#include <tuple>
#include <unordered_map>

#include "edges/annotations.h"
#include "edges/shape_inference.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

// The devices by node, with what TensorFlow's partitioner moves: a Switch and an Exit go with what
// they take, an Enter and a NextIteration with what takes them.
std::vector<const std::string*> devices_of(const tf::Graph& graph) {
  std::vector<const std::string*> devices(static_cast<std::size_t>(graph.num_node_ids()));
  const auto device = [&devices](const tf::Node* node) -> const std::string*& {
    return devices[static_cast<std::size_t>(node->id())];
  };
  for (const tf::Node* const node : graph.nodes()) device(node) = &device_of(*node);
  const auto move = [&device](tf::Node* node) {
    const bool after_input = node->IsSwitch() || node->IsExit();
    const bool before_output =
        node->IsNextIteration() || (node->IsEnter() && !tf::IsRefType(node->input_type(0)));
    if (after_input) {
      const tf::Edge* input = nullptr;
      if (node->input_edge(0, &input).ok()) device(node) = device(input->src());
    } else if (before_output) {
      for (const tf::Edge* const edge : node->out_edges()) {
        if (edge->IsControlEdge()) continue;
        device(node) = device(edge->dst());
        break;
      }
    }
  };
  tf::DFS(graph, move, nullptr);
  return devices;
}

}  // namespace

const std::string& device_of(const tf::Node& node) {
  return node.has_assigned_device_name() ? node.assigned_device_name() : node.requested_device();
}

bool in_one_task(const std::string& device, const std::string& other) {
  return device == other || tf::DeviceNameUtils::IsSameAddressSpace(device, other);
}

std::vector<MarkedEdge> find_edges(const tf::Graph& graph,
                                   const tf::FunctionLibraryDefinition* functions,
                                   const std::string& function) {
  std::map<std::tuple<int, int, std::string>, MarkedEdge> found;
  const std::vector<const std::string*> devices = devices_of(graph);
  for (tf::Node* const node : graph.op_nodes()) {
    const std::string& source = *devices[static_cast<std::size_t>(node->id())];
    for (const tf::Edge* const edge : node->out_edges()) {
      if (!edge->dst()->IsOp()) continue;
      const std::string& target = *devices[static_cast<std::size_t>(edge->dst()->id())];
      if (source.empty() || target.empty() || in_one_task(source, target)) continue;
      const int output = edge->IsControlEdge() ? kControlOutput : edge->src_output();
      MarkedEdge& marked = found[{node->id(), output, target}];
      marked.producer = node;
      marked.source = source;
      marked.note.target = target;
      marked.note.producer = {node->name(), node->type_string()};
      marked.note.output = output;
      marked.note.control = edge->IsControlEdge();
      marked.note.dtype =
          marked.note.control ? tf::DT_FLOAT : tf::BaseType(node->output_type(output));
      marked.note.add_consumer(*edge->dst());
      if (!marked.note.control) marked.inputs.emplace_back(edge->dst(), edge->dst_input());
    }
  }
  std::vector<const tf::Node*> wanted;
  for (const auto& [key, edge] : found) {
    if (!edge.note.control) wanted.push_back(edge.producer);
  }
  const Shapes shapes =
      wanted.empty() ? Shapes() : infer_shapes(graph, functions, wanted, fed_shapes());
  std::vector<MarkedEdge> edges;
  for (auto& [key, edge] : found) {
    edge.note.shape_known = true;
    if (edge.note.control) {
      edge.note.shape = tf::PartialTensorShape({0});
    } else {
      const auto output = static_cast<std::size_t>(edge.note.output);
      const auto inferred = shapes.find(edge.producer);
      if (inferred != shapes.end() && output < inferred->second.size()) {
        edge.note.shape = inferred->second[output];
      }
      const Annotation said = annotation_of(function, *edge.producer, edge.note.output);
      edge.note.pinned = said.pinned;
      edge.note.bound = said.bound;
    }
    edges.push_back(std::move(edge));
  }
  return edges;
}

void write_notes(const std::vector<MarkedEdge>& edges) {
  std::unordered_map<tf::Node*, std::vector<std::string>> outgoing;
  for (const MarkedEdge& edge : edges) {
    const std::string note = encode(edge.note);
    outgoing[edge.producer].push_back(note);
    for (const auto& [consumer, input] : edge.inputs) {
      consumer->AddAttr(kNoteIn + std::to_string(input), note);
    }
  }
  for (auto& [producer, notes] : outgoing) producer->AddAttr(kNotesOut, std::move(notes));
}

}  // namespace farwrite::plugin
