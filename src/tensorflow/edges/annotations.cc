#include "edges/annotations.h"

#include "core/mutex.h"
#include "edges/edge_note.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// More than a program annotates. Beyond it all is forgotten: an annotation is a hint.
constexpr std::size_t kMaxRemembered = 16'384;

struct AnnotationStore {
  core::Mutex mutex{core::LockRank::kProgram};
  std::unordered_map<std::string, Annotation> annotations
      FW_GUARDED_BY(mutex);  // by function, node and output
  std::unordered_map<std::string, tf::PartialTensorShape> placeholders FW_GUARDED_BY(mutex);
};

AnnotationStore& memory() {
  static AnnotationStore* const only = new AnnotationStore;
  return *only;
}

std::string key_of(const std::string& function, const std::string& node, int output) {
  return function + ";" + node + ";" + std::to_string(output);
}

tf::PartialTensorShape shape_attribute(const tf::Node& node, const std::string& name) {
  tf::PartialTensorShape shape;
  return tf::GetNodeAttr(node.attrs(), name, &shape).ok() ? shape : tf::PartialTensorShape();
}

Annotation said_at(const tf::Node& node, int output) {
  const std::string number = std::to_string(output);
  return {shape_attribute(node, kPinned + number), shape_attribute(node, kBound + number)};
}

template <typename Value>
void keep(std::unordered_map<std::string, Value>* where, std::string key, const Value& value) {
  if (where->size() >= kMaxRemembered) where->clear();
  where->insert_or_assign(std::move(key), value);
}

bool passes_on(const tf::Node& node) {
  return node.IsIdentity() || node.type_string() == "Snapshot" ||
         node.type_string() == "StopGradient" || node.type_string() == "PreventGradient";
}

// Of an Identity's output it is true of its input, which may be all that is left of it.
void remember_output(AnnotationStore* memory, const std::string& function, const tf::Node& node,
                     int output, const Annotation& annotation) {
  keep(&memory->annotations, key_of(function, node.name(), output), annotation);
  const tf::Edge* input = nullptr;
  if (passes_on(node) && node.input_edge(0, &input).ok() &&
      said_at(*input->src(), input->src_output()).empty()) {
    remember_output(memory, function, *input->src(), input->src_output(), annotation);
  }
}

}  // namespace

void remember(const std::string& function, const tf::Graph& graph) {
  AnnotationStore& all = memory();
  const core::Lock lock(all.mutex);
  for (const tf::Node* const node : graph.op_nodes()) {
    for (int output = 0; output < node->num_outputs(); ++output) {
      const Annotation annotation = said_at(*node, output);
      if (!annotation.empty()) remember_output(&all, function, *node, output, annotation);
    }
    if (node->type_string() == "Placeholder" || node->type_string() == "PlaceholderWithDefault") {
      const tf::PartialTensorShape shape = shape_attribute(*node, "shape");
      if (!shape.unknown_rank()) keep(&all.placeholders, node->name() + ":0", shape);
    }
  }
}

Annotation annotation_of(const std::string& function, const tf::Node& node, int output) {
  const Annotation said = said_at(node, output);
  if (!said.empty()) return said;
  AnnotationStore& all = memory();
  const core::Lock lock(all.mutex);
  const auto found = all.annotations.find(key_of(function, node.name(), output));
  return found == all.annotations.end() ? Annotation() : found->second;
}

std::unordered_map<std::string, tf::PartialTensorShape> fed_shapes() {
  AnnotationStore& all = memory();
  const core::Lock lock(all.mutex);
  return all.placeholders;
}

}  // namespace farwrite::plugin
