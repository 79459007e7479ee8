#include "edges/shape_inference.h"

#include <deque>
#include <string>
#include <unordered_set>

#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;
using Handle = tf::shape_inference::ShapeHandle;

constexpr std::size_t kMaxNodes = 100'000;
// How often a loop's shapes may grow more general before they count as unknown.
constexpr int kMaxRounds = 6;

bool is_back_edge(const tf::Edge& edge) {
  return edge.src()->IsNextIteration() && edge.dst()->IsMerge();
}

// `wanted` and all that their shapes follow from, inputs first. A loop is cut where it comes back.
std::vector<const tf::Node*> in_order(const std::vector<const tf::Node*>& wanted) {
  std::unordered_map<const tf::Node*, int> missing;  // inputs that are not in the order yet
  std::vector<const tf::Node*> queue(wanted);
  std::vector<const tf::Node*> order;
  while (!queue.empty()) {
    const tf::Node* const node = queue.back();
    queue.pop_back();
    if (!missing.try_emplace(node, 0).second) continue;
    if (missing.size() > kMaxNodes) return {};
    for (const tf::Edge* const edge : node->in_edges()) {
      if (edge->IsControlEdge()) continue;
      queue.push_back(edge->src());
      if (!is_back_edge(*edge)) ++missing[node];
    }
    if (missing[node] == 0) order.push_back(node);
  }
  for (std::size_t done = 0; done < order.size(); ++done) {
    for (const tf::Edge* const edge : order[done]->out_edges()) {
      if (edge->IsControlEdge() || is_back_edge(*edge)) continue;
      const auto consumer = missing.find(edge->dst());
      if (consumer != missing.end() && --consumer->second == 0) order.push_back(edge->dst());
    }
  }
  return order;
}

class Inference {
 public:
  Inference(const tf::Graph& graph, const tf::FunctionLibraryDefinition* functions,
            const std::unordered_map<std::string, tf::PartialTensorShape>& fed)
      : refiner_(graph.versions(), graph.op_registry()), fed_(fed) {
    refiner_.set_require_shape_inference_fns(false);
    if (functions != nullptr) refiner_.set_function_library_for_shape_inference(functions);
  }

  void add(const tf::Node& node) {
    const absl::Status added = refiner_.AddNode(&node);
    if (!added.ok()) {
      VLOG(1) << "Farwrite: no shape of " << node.name() << ": " << added.message();
      return;
    }
    // TensorFlow says nothing of what enters a loop, because it may come back with another shape;
    // that is looked after below.
    const tf::Edge* entering = nullptr;
    if (node.IsEnter() && node.input_edge(0, &entering).ok()) {
      set(node, shape(*entering->src(), entering->src_output()));
      pass_handle_on(*entering->src(), entering->src_output(), node);
    }
    std::string name;
    if (node.IsRecv() && tf::GetNodeAttr(node.attrs(), "tensor_name", &name).ok()) {
      const auto found = fed_.find(name);
      if (found != fed_.end()) set(node, found->second);
    }
  }

  tf::PartialTensorShape shape(const tf::Node& node, int output) const {
    auto* const context = refiner_.GetContext(&node);
    if (context == nullptr || output >= context->num_outputs()) return {};
    tf::TensorShapeProto proto;
    context->ShapeHandleToProto(context->output(output), &proto);
    return tf::PartialTensorShape::IsValid(proto) ? tf::PartialTensorShape(proto)
                                                  : tf::PartialTensorShape();
  }

  void set(const tf::Node& node, const tf::PartialTensorShape& shape) {
    auto* const context = refiner_.GetContext(&node);
    Handle handle;
    if (context == nullptr || shape.unknown_rank() ||
        !context->MakeShapeFromPartialTensorShape(shape, &handle).ok()) {
      return;
    }
    const absl::Status status = refiner_.SetShape(&node, 0, handle);
    if (!status.ok()) VLOG(1) << "Farwrite: " << node.name() << ": " << status.message();
  }

  // A resource that goes round a loop stays the one that entered.
  void pass_handle_on(const tf::Node& from, int output, const tf::Node& to) {
    auto* const source = refiner_.GetContext(&from);
    auto* const target = refiner_.GetContext(&to);
    if (source == nullptr || target == nullptr) return;
    const auto* const known = source->output_handle_shapes_and_types(output);
    if (known != nullptr) target->set_output_handle_shapes_and_types(0, *known);
  }

 private:
  tf::ShapeRefiner refiner_;
  const std::unordered_map<std::string, tf::PartialTensorShape>& fed_;
};

const tf::Edge* back_edge(const tf::Node& node) {
  if (!node.IsMerge()) return nullptr;
  for (const tf::Edge* const edge : node.in_edges()) {
    if (!edge->IsControlEdge() && is_back_edge(*edge)) return edge;
  }
  return nullptr;
}

}  // namespace

tf::PartialTensorShape join_shapes(const tf::PartialTensorShape& left,
                                   const tf::PartialTensorShape& right) {
  if (left.unknown_rank() || right.unknown_rank() || left.dims() != right.dims()) return {};
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < left.dims(); ++axis) {
    const std::int64_t size = left.dim_size(axis);
    sizes.push_back(size == right.dim_size(axis) ? size : -1);
  }
  return tf::PartialTensorShape(sizes);
}

Shapes infer_shapes(const tf::Graph& graph, const tf::FunctionLibraryDefinition* functions,
                    const std::vector<const tf::Node*>& wanted,
                    const std::unordered_map<std::string, tf::PartialTensorShape>& fed) {
  const std::vector<const tf::Node*> order = in_order(wanted);
  // A loop's variable is taken to have the shape it enters with, until it comes back with another;
  // then all is done again with what both shapes have in common.
  std::unordered_map<const tf::Node*, tf::PartialTensorShape> loops;
  for (int round = 0;; ++round) {
    Inference inference(graph, functions, fed);
    for (const tf::Node* const node : order) {
      inference.add(*node);
      const tf::Edge* const back = back_edge(*node);
      if (back == nullptr) continue;
      const tf::Edge* enter = nullptr;
      for (const tf::Edge* const edge : node->in_edges()) {
        if (!edge->IsControlEdge() && edge != back) enter = edge;
      }
      if (enter == nullptr) continue;
      const tf::PartialTensorShape first = inference.shape(*enter->src(), enter->src_output());
      const auto [place, is_new] = loops.try_emplace(node, first);
      if (!is_new) place->second = join_shapes(place->second, first);
      inference.set(*node, place->second);
      inference.pass_handle_on(*enter->src(), enter->src_output(), *node);
    }
    bool holds = true;
    for (auto& [node, assumed] : loops) {
      const tf::Edge& back = *back_edge(*node);
      const tf::PartialTensorShape joined =
          join_shapes(assumed, inference.shape(*back.src(), back.src_output()));
      if (joined.IsIdenticalTo(assumed)) continue;
      holds = false;
      assumed = joined;
    }
    if (!holds && round + 1 == kMaxRounds) {  // no more guesses: what is unknown stays true
      for (auto& [node, assumed] : loops) assumed = tf::PartialTensorShape();
    }
    if (!holds && round < kMaxRounds) continue;
    Shapes shapes;
    for (const tf::Node* const node : wanted) {
      std::vector<tf::PartialTensorShape>& outputs = shapes[node];
      for (int output = 0; output < node->num_outputs(); ++output) {
        outputs.push_back(inference.shape(*node, output));
      }
    }
    return shapes;
  }
}

}  // namespace farwrite::plugin
