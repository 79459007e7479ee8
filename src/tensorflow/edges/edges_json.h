// The table of edges as JSON: one object for each edge, as python/farwrite/plugin/edges.py types
// it.
#pragma once

#include <string>

#include "edges/edges.h"

namespace farwrite::plugin {

// Of this process, by name.
std::string edges_json();

std::string edge_json(const Edge& edge);

}  // namespace farwrite::plugin
