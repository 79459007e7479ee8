#include "edges/edge_facts.h"

#include <atomic>
#include <deque>
#include <string>
#include <unordered_set>

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// Ops whose output never is an input's buffer, if that buffer is a variable's: elementwise kernels
// reuse only an input that nothing else holds. Every other op may hand its input on, whole or a
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

// A function's argument is a plain tensor, even when it is called with a ref variable's memory. So
// once this process has seen a ref variable, arguments may be one.
std::atomic<bool> ref_variables_exist{false};

bool is_argument(const tf::Node& node) {
  return node.IsArg() || node.type_string() == "_DeviceArg";
}

bool is_variable_read(const tf::Node& node) {
  const std::string& op = node.type_string();
  return op == "ReadVariableOp" || op == "_ReadVariablesOp" || node.IsVariable();
}

}  // namespace

void look_for_ref_variables(const tf::Graph& graph) {
  for (const tf::Node* const node : graph.op_nodes()) {
    if (is_ref_variable(*node)) ref_variables_exist.store(true);
  }
}

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

}  // namespace farwrite::plugin
