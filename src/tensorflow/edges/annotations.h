// What is known of a graph's nodes before TensorFlow optimizes it, by name.
//
// A user's annotation is an attribute of the node that makes the tensor. Grappler may fuse that
// node with others, which keeps its name and loses its attributes, or take out an Identity. And
// where a session feeds a placeholder, its shape is gone with it.
#pragma once

#include <string>
#include <unordered_map>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/graph.h"

namespace farwrite::plugin {

struct Annotation {
  tensorflow::PartialTensorShape pinned;  // of unknown rank where nothing is said
  tensorflow::PartialTensorShape bound;

  bool empty() const { return pinned.unknown_rank() && bound.unknown_rank(); }
};

// Remembers the annotations, and the placeholders, of a graph that is not optimized yet. `function`
// is the name of the function that it is the body of, if it is one.
void remember(const std::string& function, const tensorflow::Graph& graph);

// What the user says of this output.
Annotation annotation_of(const std::string& function, const tensorflow::Node& node, int output);

// The shapes of placeholders, by "node:0".
std::unordered_map<std::string, tensorflow::PartialTensorShape> fed_shapes();

}  // namespace farwrite::plugin
