// What a whole graph, placed and not yet partitioned, says of its edges between tasks.
#pragma once

#include <string>
#include <vector>

#include "edges/edge_note.h"
#include "tensorflow/core/framework/function.h"

namespace farwrite::plugin {

struct MarkedEdge {
  tensorflow::Node* producer;
  std::string source;  // its device
  EdgeNote note;
  std::vector<std::pair<tensorflow::Node*, int>> inputs;  // consumers and the input they take it at
};

// Every edge between two tasks, once for each output and receiving device, as TensorFlow sends it.
// `function`: see annotations.h.
std::vector<MarkedEdge> find_edges(const tensorflow::Graph& graph,
                                   const tensorflow::FunctionLibraryDefinition* functions,
                                   const std::string& function);

// Writes the notes on producers and consumers.
void write_notes(const std::vector<MarkedEdge>& edges);

// The device of a node: where it was placed, else where it asks to be.
const std::string& device_of(const tensorflow::Node& node);

bool in_one_task(const std::string& device, const std::string& other);

}  // namespace farwrite::plugin
