// Edges: what this process knows of the edges between tasks: from the graphs it partitioned, and
// from what went over them.
//
// An edge's name is its rendezvous key without the sender's incarnation and without frame and
// iteration: what a graph fixes. Two graphs may give two edges one name; then both count.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"
#include "edges/edge_note.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.pb.h"

namespace farwrite::plugin {

// What can be said of an edge's size before a tensor goes over it (paper "RPC Considered Harmful",
// sections 3.2 and 3.4): all of its dimensions, an upper bound, or neither.
enum class Sizing : std::uint8_t { kUnknown, kStatic, kBounded, kDynamic };

// How one tensor went. Also the reason, where it was copied.
enum class Way : std::uint8_t {
  kInline,
  kZeroCopy,
  kLanded,  // written into memory that the receiver had prepared
  kStagedForeign,
  kStagedReceived,
  kStagedUnaligned,
  kSnapshot,
  kSerialized,
  kPull,
  kLoopback,
  kLentAgain,  // the copy that was made of the same memory before
  kStagedDevice,
  kCount,
};

const char* name_of(Way way);  // "zero_copy"

// What the producer's graph says of the tensor's memory.
struct EdgeFacts {
  bool ref = false;       // it may be the memory of a ref variable
  bool variable = false;  // the producer reads a variable
};

// What is known of an edge besides its counts.
struct EdgeAccount {
  EdgeNote note;  // empty where no graph named the edge
  // Of the tensors that went: the last one, and whether any two differed.
  bool seen = false;
  tensorflow::DataType last_dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape last_shape;
  bool varied = false;
  std::uint64_t broke_annotation = 0;  // tensors that are not what the user said
  std::string why_copied;              // see Edge::explain
};

// Thread-safe.
class Edge {
 public:
  explicit Edge(std::string name) : name_(std::move(name)) {}

  // "source device;target device;edge"
  const std::string& name() const { return name_; }

  // Whether a graph that this process partitioned has it.
  bool in_graph() const { return in_graph_.load(); }
  void seen_in_graph() { in_graph_.store(true); }

  EdgeFacts facts() const { return {ref_.load(), variable_.load()}; }
  // Facts are added and never taken back.
  void add(const EdgeFacts& facts);

  Sizing sizing() const { return sizing_.load(); }
  // Whether a graph bounds its tensors: static, or bounded by the user.
  bool has_bound() const;
  // The most bytes one tensor has, where has_bound().
  std::uint64_t max_bytes() const { return max_bytes_.load(); }
  // From a graph. An edge that two graphs size differently takes the larger of what they say.
  void size_as(Sizing sizing, std::uint64_t max_bytes);

  // From a graph: facts, sizing and all else. What two graphs say differently is known of neither.
  void describe(const EdgeNote& note);
  // Why its tensors are copied, for people; else the way says it.
  void explain(std::string why);
  EdgeAccount account() const;

  // One tensor went this way.
  void went(Way way, tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
            std::uint64_t bytes);
  std::uint64_t count(Way way) const { return ways_[static_cast<std::size_t>(way)].load(); }
  std::uint64_t bytes() const { return bytes_.load(); }
  // Whether memory for `bytes` waiting at the receiver will be used again: the graph says so, or as
  // many bytes went before.
  bool repeats(std::uint64_t bytes) const;

 private:
  const std::string name_;
  std::atomic<bool> in_graph_{false};
  std::atomic<bool> ref_{false};
  std::atomic<bool> variable_{false};
  std::atomic<Sizing> sizing_{Sizing::kUnknown};
  std::atomic<std::uint64_t> max_bytes_{0};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Way::kCount)> ways_{};
  std::atomic<std::uint64_t> last_bytes_{0};
  std::atomic<std::uint64_t> bytes_{0};
  mutable core::Mutex mutex_{core::LockRank::kProgram};
  EdgeAccount account_ FW_GUARDED_BY(mutex_);
};

// The parts of a full key: the edge's name, and which of its tensors.
struct KeyParts {
  std::string name;      // "source device;target device;edge"
  std::string instance;  // "sender's incarnation;frame and iteration"
};
KeyParts split_key(std::string_view full_key);
std::string join_key(std::string_view name, std::string_view instance);

// Thread-safe. Edges that a graph named stay; of those that only tensors named (eager copies have a
// new name each) the oldest are forgotten.
class Edges {
 public:
  static Edges& of_process();

  std::shared_ptr<Edge> find(const tensorflow::RendezvousInterface::ParsedKey& key);
  // The edge of a graph.
  std::shared_ptr<Edge> declare(std::string_view source, std::string_view target,
                                std::string_view tensor);
  std::vector<std::shared_ptr<Edge>> all() const;

 private:
  struct Table;
  Edges();
  Table* const table_;
};

}  // namespace farwrite::plugin
