// What TensorFlow's shape functions say of a graph's outputs.
#pragma once

#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/graph.h"

namespace farwrite::plugin {

// By node and output. What is missing is unknown.
using Shapes =
    std::unordered_map<const tensorflow::Node*, std::vector<tensorflow::PartialTensorShape>>;

// The shapes of `wanted`, which follow from their ancestors' alone. Never fails: a node that cannot
// be inferred, or a graph that is too large, is unknown. `functions` may be null: then calls give
// unknown shapes. `fed`: the shapes of what a session feeds, by "node:output", as far as known.
Shapes infer_shapes(
    const tensorflow::Graph& graph, const tensorflow::FunctionLibraryDefinition* functions,
    const std::vector<const tensorflow::Node*>& wanted,
    const std::unordered_map<std::string, tensorflow::PartialTensorShape>& fed = {});

// What is true of both shapes.
tensorflow::PartialTensorShape join_shapes(const tensorflow::PartialTensorShape& left,
                                           const tensorflow::PartialTensorShape& right);

}  // namespace farwrite::plugin
