#include "edge_facts.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// An edge's key without the incarnation and the iteration: fixed in the graph.
std::string edge_name(std::string_view source, std::string_view target, std::string_view tensor) {
  std::string name;
  name.reserve(source.size() + target.size() + tensor.size() + 2);
  name.append(source).append(";").append(target).append(";").append(tensor);
  return name;
}

// Facts are added and never taken back: two graphs may give an edge one name, and then both count.
class Known {
 public:
  void add(const std::string& edge, const EdgeFacts& facts) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    EdgeFacts& known = edges_[edge];
    known.ref |= facts.ref;
    known.variable |= facts.variable;
  }
  EdgeFacts find(const std::string& edge) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto found = edges_.find(edge);
    return found == edges_.end() ? EdgeFacts() : found->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, EdgeFacts> edges_;
};

Known& known() {
  static Known* const only = new Known;
  return *only;
}

// Ops whose output never is an input's buffer, if that buffer is a variable's: elementwise kernels
// reuse only an input that nobody else holds. Every other op may hand its input on, whole or a
// slice of it: a transposition that changes nothing, a sum over no axis, a function's call.
bool makes_new_memory(const tf::Node& node) {
  static const auto* const ops =
      new std::unordered_set<std::string>{"Add",
                                          "AddV2",
                                          "Sub",
                                          "Mul",
                                          "Div",
                                          "RealDiv",
                                          "FloorDiv",
                                          "Maximum",
                                          "Minimum",
                                          "Pow",
                                          "SquaredDifference",
                                          "BiasAdd",
                                          "BiasAddGrad",
                                          "MatMul",
                                          "BatchMatMul",
                                          "BatchMatMulV2",
                                          "BatchMatMulV3",
                                          "_FusedMatMul",
                                          "SparseMatMul",
                                          "Einsum",
                                          "Conv2D",
                                          "_FusedConv2D",
                                          "Conv2DBackpropInput",
                                          "Conv2DBackpropFilter",
                                          "Conv3D",
                                          "DepthwiseConv2dNative",
                                          "MaxPool",
                                          "AvgPool",
                                          "LRN",
                                          "Neg",
                                          "Abs",
                                          "Square",
                                          "Sqrt",
                                          "Rsqrt",
                                          "Exp",
                                          "Log",
                                          "Log1p",
                                          "Tanh",
                                          "Sigmoid",
                                          "Relu",
                                          "Relu6",
                                          "Elu",
                                          "Selu",
                                          "Softplus",
                                          "Softmax",
                                          "LogSoftmax",
                                          "ReluGrad",
                                          "TanhGrad",
                                          "SigmoidGrad",
                                          "Sin",
                                          "Cos",
                                          "Floor",
                                          "Ceil",
                                          "Round",
                                          "Sign",
                                          "Equal",
                                          "NotEqual",
                                          "Less",
                                          "LessEqual",
                                          "Greater",
                                          "GreaterEqual",
                                          "LogicalAnd",
                                          "LogicalOr",
                                          "LogicalNot",
                                          "Gather",
                                          "GatherV2",
                                          "GatherNd",
                                          "OneHot",
                                          "Shape",
                                          "Size",
                                          "Rank",
                                          "ArgMax",
                                          "ArgMin",
                                          "L2Loss",
                                          "ZerosLike",
                                          "OnesLike",
                                          "Fill",
                                          "Range",
                                          "Const",
                                          "Placeholder",
                                          "RandomUniform",
                                          "RandomStandardNormal",
                                          "TruncatedNormal",
                                          "ReadVariableOp",
                                          "VarHandleOp",
                                          "SoftmaxCrossEntropyWithLogits",
                                          "SparseSoftmaxCrossEntropyWithLogits",
                                          "_Recv",
                                          "_HostRecv",
                                          "IteratorGetNext",
                                          "QueueDequeueV2",
                                          "QueueDequeueManyV2"};
  return ops->count(node.type_string()) != 0;
}

bool is_ref_variable(const tf::Node& node) {
  return node.num_outputs() > 0 && tf::IsRefType(node.output_type(0));
}

// A function's argument is a plain tensor, also when it is called with a ref variable's memory. So
// once this process has seen a ref variable, arguments may be one.
std::atomic<bool> ref_variables_exist{false};

bool is_argument(const tf::Node& node) {
  return node.IsArg() || node.type_string() == "_DeviceArg";
}

bool is_variable_read(const tf::Node& node) {
  const std::string& op = node.type_string();
  return op == "ReadVariableOp" || op == "_ReadVariablesOp" || node.IsVariable();
}

// Follows the tensor from its producer back, as far as its memory may come from.
EdgeFacts look_back(const tf::Node& send) {
  EdgeFacts facts;
  std::deque<const tf::Edge*> queue(send.in_edges().begin(), send.in_edges().end());
  std::unordered_set<const tf::Node*> seen;
  while (!queue.empty()) {
    const tf::Edge* const edge = queue.front();
    queue.pop_front();
    if (edge->IsControlEdge()) continue;
    const tf::Node& producer = *edge->src();
    if (tf::IsRefType(producer.output_type(edge->src_output()))) facts.ref = true;
    if (is_argument(producer) && ref_variables_exist.load()) facts.ref = true;
    if (is_variable_read(producer)) facts.variable = true;
    if (!makes_new_memory(producer) && seen.insert(&producer).second) {
      for (const tf::Edge* const input : producer.in_edges()) queue.push_back(input);
    }
  }
  return facts;
}

class EdgePass final : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.partition_graphs == nullptr) return absl::OkStatus();
    for (const auto& [device, graph] : *options.partition_graphs) {
      for (const tf::Node* const node : graph->op_nodes()) {
        if (is_ref_variable(*node)) ref_variables_exist.store(true);
      }
    }
    for (const auto& [device, graph] : *options.partition_graphs) {
      for (const tf::Node* const node : graph->op_nodes()) {
        if (!node->IsSend()) continue;
        const EdgeFacts facts = look_back(*node);
        if (!facts.ref && !facts.variable) continue;
        std::string source, target, tensor;
        if (tf::GetNodeAttr(node->attrs(), "send_device", &source).ok() &&
            tf::GetNodeAttr(node->attrs(), "recv_device", &target).ok() &&
            tf::GetNodeAttr(node->attrs(), "tensor_name", &tensor).ok()) {
          known().add(edge_name(source, target, tensor), facts);
        }
      }
    }
    return absl::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_PARTITIONING, 1000, EdgePass);

}  // namespace

EdgeFacts facts_of(const tf::RendezvousInterface::ParsedKey& key) {
  return known().find(edge_name(key.src_device, key.dst_device, key.edge_name));
}

}  // namespace farwrite::plugin
