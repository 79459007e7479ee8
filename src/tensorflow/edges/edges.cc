#include "edges/edges.h"

#include <deque>
#include <unordered_map>
#include <utility>

#include "core/mutex.h"
#include "edges/shape_inference.h"
#include "stats/stats.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// Edges that no graph named.
constexpr std::size_t kMaxObserved = 4096;

std::string edge_name(std::string_view source, std::string_view target, std::string_view tensor) {
  std::string name;
  name.reserve(source.size() + target.size() + tensor.size() + 2);
  name.append(source).append(";").append(target).append(";").append(tensor);
  return name;
}

// How a graph sizes an edge, and the most bytes it then has.
std::pair<Sizing, std::uint64_t> sized(const EdgeNote& note) {
  if (note.dtype == tf::DT_INVALID) return {Sizing::kUnknown, 0};
  if (!tf::DataTypeCanUseMemcpy(note.dtype)) return {Sizing::kDynamic, 0};
  const auto bytes = [&note](const tf::PartialTensorShape& shape) {
    return static_cast<std::uint64_t>(shape.num_elements()) *
           static_cast<std::uint64_t>(tf::DataTypeSize(note.dtype));
  };
  if (note.shape.IsFullyDefined()) return {Sizing::kStatic, bytes(note.shape)};
  if (note.pinned.IsFullyDefined()) return {Sizing::kStatic, bytes(note.pinned)};
  if (note.bound.IsFullyDefined()) return {Sizing::kBounded, bytes(note.bound)};
  return {note.shape_known ? Sizing::kDynamic : Sizing::kUnknown, 0};
}

bool breaks(const EdgeNote& note, const tf::TensorShape& shape) {
  if (note.pinned.IsFullyDefined() && !note.pinned.IsCompatibleWith(shape)) return true;
  if (!note.bound.IsFullyDefined()) return false;
  if (note.bound.dims() != shape.dims()) return true;
  for (int axis = 0; axis < shape.dims(); ++axis) {
    if (shape.dim_size(axis) > note.bound.dim_size(axis)) return true;
  }
  return false;
}

}  // namespace

void Edge::add(const EdgeFacts& facts) {
  if (facts.ref) ref_.store(true);
  if (facts.variable) variable_.store(true);
}

void Edge::size_as(Sizing sizing, std::uint64_t max_bytes) {
  // Ordered by how little is known.
  if (sizing > sizing_.load()) sizing_.store(sizing);
  if (max_bytes > max_bytes_.load()) max_bytes_.store(max_bytes);
}

void Edge::describe(const EdgeNote& note) {
  add({note.ref, note.variable});
  const auto [sizing, max_bytes] = sized(note);
  if (sizing != Sizing::kUnknown) size_as(sizing, max_bytes);
  const core::Lock lock(mutex_);
  EdgeNote merged = note;
  const EdgeNote& before = account_.note;
  if (before.shape_known) {
    merged.shape = note.shape_known ? join_shapes(before.shape, note.shape) : before.shape;
    merged.shape_known = true;
  }
  if (note.producer.second.empty() && before.producer.first == note.producer.first) {
    merged.producer = before.producer;
  }
  if (note.consumers.empty()) {
    merged.consumers = before.consumers;
    merged.more_consumers = before.more_consumers;
  }
  if (note.pinned.unknown_rank()) merged.pinned = before.pinned;
  if (note.bound.unknown_rank()) merged.bound = before.bound;
  account_.note = std::move(merged);
}

void Edge::explain(std::string why) {
  const core::Lock lock(mutex_);
  account_.why_copied = std::move(why);
}

EdgeAccount Edge::account() const {
  const core::Lock lock(mutex_);
  return account_;
}

void Edge::went(Way way, tf::DataType dtype, const tf::TensorShape& shape, std::uint64_t bytes) {
  ways_[static_cast<std::size_t>(way)].fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  last_bytes_.store(bytes, std::memory_order_relaxed);
  const core::Lock lock(mutex_);
  // A dead tensor has no shape: it is an empty one of floats.
  if (dtype == tf::DT_FLOAT && shape.dims() == 1 && shape.dim_size(0) == 0 &&
      !account_.note.control) {
    return;
  }
  if (account_.seen && (account_.last_dtype != dtype || account_.last_shape != shape)) {
    account_.varied = true;
  }
  account_.seen = true;
  account_.last_dtype = dtype;
  account_.last_shape = shape;
  if (!breaks(account_.note, shape)) return;
  plugin::count(stats().broke_annotations);
  if (account_.broke_annotation++ > 0) return;
  LOG(WARNING) << "Farwrite: a tensor of shape " << shape.DebugString()
               << " broke the annotation of " << name_ << ", "
               << (account_.note.pinned.unknown_rank()
                       ? "at most " + account_.note.bound.DebugString()
                       : account_.note.pinned.DebugString())
               << ". It is sent as a tensor of unknown size; logged once per edge";
}

bool Edge::has_bound() const {
  const Sizing sizing = sizing_.load(std::memory_order_relaxed);
  return sizing == Sizing::kStatic || sizing == Sizing::kBounded;
}

bool Edge::repeats(std::uint64_t bytes) const {
  if (has_bound()) return bytes <= max_bytes_.load();
  return last_bytes_.load(std::memory_order_relaxed) == bytes;
}

// Five parts: source device, its incarnation, target device, edge, frame and iteration.
KeyParts split_key(std::string_view key) {
  const std::size_t source = key.find(';');
  const std::size_t last = key.rfind(';');
  const std::size_t incarnation =
      source == std::string_view::npos ? source : key.find(';', source + 1);
  if (incarnation == std::string_view::npos || last <= incarnation) {
    return {std::string(key), std::string()};
  }
  KeyParts parts;
  parts.name.append(key.substr(0, source)).append(key.substr(incarnation, last - incarnation));
  parts.instance.append(key.substr(source + 1, incarnation - source - 1)).append(key.substr(last));
  return parts;
}

std::string join_key(std::string_view name, std::string_view instance) {
  const std::size_t source = name.find(';');
  const std::size_t incarnation = instance.find(';');
  if (source == std::string_view::npos || incarnation == std::string_view::npos) {
    return std::string(name);
  }
  std::string key;
  key.reserve(name.size() + instance.size() + 2);
  key.append(name.substr(0, source)).append(";").append(instance.substr(0, incarnation));
  key.append(name.substr(source)).append(instance.substr(incarnation));
  return key;
}

struct Edges::Table {
  mutable core::SharedMutex mutex{core::LockRank::kProgram};
  std::unordered_map<std::string, std::shared_ptr<Edge>> edges FW_GUARDED_BY(mutex);
  std::deque<std::string> observed
      FW_GUARDED_BY(mutex);  // oldest first; a graph may have named some of them since
};

Edges::Edges() : table_(new Table) {}

Edges& Edges::of_process() {
  static Edges* const only = new Edges;
  return *only;
}

std::shared_ptr<Edge> Edges::find(const tf::RendezvousInterface::ParsedKey& key) {
  const std::string name = edge_name(key.src_device, key.dst_device, key.edge_name);
  {
    const core::ReaderLock lock(table_->mutex);
    const auto found = table_->edges.find(name);
    if (found != table_->edges.end()) return found->second;
  }
  const core::WriterLock lock(table_->mutex);
  const auto [place, is_new] = table_->edges.try_emplace(name);
  if (!is_new) return place->second;
  const std::shared_ptr<Edge> edge = place->second = std::make_shared<Edge>(name);
  table_->observed.push_back(name);
  if (table_->observed.size() > kMaxObserved) {
    const auto oldest = table_->edges.find(table_->observed.front());
    if (oldest != table_->edges.end() && !oldest->second->in_graph()) table_->edges.erase(oldest);
    table_->observed.pop_front();
  }
  return edge;
}

std::shared_ptr<Edge> Edges::declare(std::string_view source, std::string_view target,
                                     std::string_view tensor) {
  const std::string name = edge_name(source, target, tensor);
  const core::WriterLock lock(table_->mutex);
  std::shared_ptr<Edge>& edge = table_->edges[name];
  if (edge == nullptr) edge = std::make_shared<Edge>(name);
  edge->seen_in_graph();
  return edge;
}

std::vector<std::shared_ptr<Edge>> Edges::all() const {
  std::vector<std::shared_ptr<Edge>> edges;
  const core::ReaderLock lock(table_->mutex);
  edges.reserve(table_->edges.size());
  for (const auto& [name, edge] : table_->edges) edges.push_back(edge);
  return edges;
}

}  // namespace farwrite::plugin
