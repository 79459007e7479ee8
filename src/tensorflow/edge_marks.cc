#include "edge_marks.h"

#include <map>
#include <tuple>
#include <unordered_map>

#include "annotations.h"
#include "shape_inference.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

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
  for (tf::Node* const node : graph.op_nodes()) {
    const std::string& source = device_of(*node);
    for (const tf::Edge* const edge : node->out_edges()) {
      if (!edge->dst()->IsOp()) continue;
      const std::string& target = device_of(*edge->dst());
      if (source.empty() || target.empty() || in_one_task(source, target)) continue;
      const int output = edge->IsControlEdge() ? kControlOutput : edge->src_output();
      MarkedEdge& marked = found[{node->id(), output, target}];
      marked.producer = node;
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
