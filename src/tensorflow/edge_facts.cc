#include "edge_facts.h"

#include <deque>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
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
    known.in_place |= facts.in_place;
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

// Ops that hand their input's buffer on, so that what is said of the input holds for the output.
bool passes_through(const tf::Node& node) {
  static const auto* const ops = new std::unordered_set<std::string>{
      "Identity",      "IdentityN", "StopGradient", "PreventGradient", "Reshape",     "ExpandDims",
      "Squeeze",       "Bitcast",   "Snapshot",     "CheckNumerics",   "EnsureShape", "_Retval",
      "_DeviceRetval", "_Arg",      "_DeviceArg"};
  return node.IsControlFlow() || ops->count(node.type_string()) != 0;
}

bool is_variable_read(const tf::Node& node) {
  const std::string& op = node.type_string();
  return op == "ReadVariableOp" || op == "_ReadVariablesOp" || node.IsVariable();
}

// Whether any op of the function, or of what it calls, writes in place.
bool function_writes_in_place(const tf::FunctionLibraryDefinition& library, const std::string& name,
                              std::set<std::string>* seen) {
  if (!seen->insert(name).second) return false;
  const tf::FunctionDef* const function = library.Find(name);
  if (function == nullptr) return false;
  for (const tf::NodeDef& node : function->node_def()) {
    if (writes_in_place(node.op())) return true;
    if (library.Find(node.op()) != nullptr && function_writes_in_place(library, node.op(), seen)) {
      return true;
    }
    for (const auto& [attribute, value] : node.attr()) {
      if (value.has_func() && function_writes_in_place(library, value.func().name(), seen)) {
        return true;
      }
      for (const tf::NameAttrList& branch : value.list().func()) {
        if (function_writes_in_place(library, branch.name(), seen)) return true;
      }
    }
  }
  return false;
}

bool node_writes_in_place(const tf::Node& node, const tf::FunctionLibraryDefinition* library) {
  if (writes_in_place(node.type_string())) return true;
  if (library == nullptr) return false;
  std::set<std::string> seen;
  if (function_writes_in_place(*library, node.type_string(), &seen)) return true;
  for (const auto& [attribute, value] : node.attrs()) {
    if (value.has_func() && function_writes_in_place(*library, value.func().name(), &seen)) {
      return true;
    }
    for (const tf::NameAttrList& branch : value.list().func()) {
      if (function_writes_in_place(*library, branch.name(), &seen)) return true;
    }
  }
  return false;
}

// Follows the tensor from its producer back through the ops that pass it on.
void look_back(const tf::Node& send, EdgeFacts* facts) {
  std::deque<const tf::Edge*> queue(send.in_edges().begin(), send.in_edges().end());
  std::unordered_set<const tf::Node*> seen;
  while (!queue.empty()) {
    const tf::Edge* const edge = queue.front();
    queue.pop_front();
    if (edge->IsControlEdge()) continue;
    const tf::Node& producer = *edge->src();
    if (tf::IsRefType(producer.output_type(edge->src_output()))) facts->ref = true;
    if (is_variable_read(producer)) facts->variable = true;
    if (passes_through(producer) && seen.insert(&producer).second) {
      for (const tf::Edge* const input : producer.in_edges()) queue.push_back(input);
    }
  }
}

// Follows it to every kernel that may get its buffer.
bool may_be_written(const tf::Node& receive, const tf::FunctionLibraryDefinition* library) {
  std::deque<const tf::Node*> queue{&receive};
  std::unordered_set<const tf::Node*> seen;
  while (!queue.empty()) {
    const tf::Node* const node = queue.front();
    queue.pop_front();
    for (const tf::Edge* const edge : node->out_edges()) {
      if (edge->IsControlEdge() || !seen.insert(edge->dst()).second) continue;
      if (node_writes_in_place(*edge->dst(), library)) return true;
      if (passes_through(*edge->dst())) queue.push_back(edge->dst());
    }
  }
  return false;
}

class EdgePass final : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.partition_graphs == nullptr) return absl::OkStatus();
    for (const auto& [device, graph] : *options.partition_graphs) {
      for (const tf::Node* const node : graph->op_nodes()) {
        if (!node->IsSend() && !node->IsRecv()) continue;
        EdgeFacts facts;
        if (node->IsSend()) {
          look_back(*node, &facts);
        } else {
          facts.in_place = may_be_written(*node, options.flib_def);
        }
        if (!facts.ref && !facts.variable && !facts.in_place) continue;
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

bool writes_in_place(const std::string& op) {
  static const auto* const ops = new std::unordered_set<std::string>{
      "InplaceUpdate",  "InplaceAdd",         "InplaceSub",      "_ParallelConcatUpdate",
      "ParallelConcat", "AliasInplaceUpdate", "AliasInplaceAdd", "AliasInplaceSub"};
  return ops->count(op) != 0;
}

}  // namespace farwrite::plugin
