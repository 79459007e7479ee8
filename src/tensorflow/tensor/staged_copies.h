// StagedCopies: what becomes of tensors that had to be copied because they were allocated outside
// registered memory, and why they were (policy `traced`).
//
// A tensor that was copied may be held, a reference to it and the copy. That does two things:
//   - A variable is allocated when it is initialized, long before it is sent. While something holds
//     its buffer, TensorFlow's copy-on-write gives it a new one when it is updated, allocated by
//     the operation that updates it, in registered memory as soon as that site counts as sent.
//   - The held bytes cannot change, so that while the same buffer is sent again the same copy is
//     lent again: what never changes is copied once.
// Held until the edge sends another buffer or nothing, the peer ends, memory runs short, or an
// operation writes into it in place. An edge that goes on sending such memory is given up on: then
// nothing is held for it, until there is a new graph.
//
// Memory of ref variables changes the code that holds it; it never comes here where the graph is
// known. Where it is not, held bytes are compared before their copy is lent again. For eager
// copies, each of which is an edge of its own, nothing is held.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/mutex.h"
#include "edges/edges.h"
#include "farwrite/c_api.h"
#include "memory/allocation_sites.h"
#include "memory/staging.h"
#include "peer/peer_process.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// A tensor, and its bytes in registered memory, which live as long as they are held or lent.
struct StagedCopy {
  tensorflow::Tensor tensor;
  fw_device* device = nullptr;
  Staged memory;
};

// Thread-safe.
class StagedCopies {
 public:
  static StagedCopies& of_process();

  // A tensor outside registered memory is about to be sent.
  struct ForeignTensor {
    std::shared_ptr<Edge> edge;
    std::shared_ptr<PeerProcess> peer;
    tensorflow::Tensor tensor;
    std::int64_t step = 0;
    fw_device* device = nullptr;
  };
  // The bytes to lend again, or null: then the tensor must be copied, for the reason that the edge
  // is told, and the copy be given to hold(), if `worth_holding`.
  Staged find(const ForeignTensor& sent, bool* worth_holding);
  // Holds a copy of the tensor.
  Staged hold(const ForeignTensor& sent, Staged staged);
  // This edge sends something that needs no copy.
  void not_needed(const Edge& edge, std::int64_t step) {
    if (edges_held_.load(std::memory_order_relaxed) > 0 || sites_.tracing()) let_go(edge, step);
  }

  // Something will write into this tensor's buffer.
  void will_change(const tensorflow::Tensor& tensor);
  // Lets go of what is held for peers that have ended, or of everything: whether there was
  // something.
  void peer_ended();
  bool release_all();

 private:
  // What is known of an edge that sends such tensors.
  struct StagedEdge {
    std::weak_ptr<Edge> edge;  // another one may lie at its address one day
    std::weak_ptr<PeerProcess> peer;
    std::shared_ptr<const StagedCopy> copy;  // may be null
    std::uint32_t tries = 0;                 // other buffers in a row
    std::uint64_t graphs = 0;                // that there were then
    std::uint64_t used = 0;                  // at this number of steps
  };
  struct Dropped;

  explicit StagedCopies(AllocationSites& sites) : sites_(sites) {}
  void let_go(const Edge& edge, std::int64_t step);
  // What fits; the edge has its state afterwards.
  std::shared_ptr<const StagedCopy> held_for(const ForeignTensor& sent, std::uint64_t now);
  std::shared_ptr<const StagedCopy> same_buffer(const ForeignTensor& sent,
                                                const StagedEdge& state) const FW_REQUIRES(mutex_);
  // Why the tensor has to be copied; whether its site counts as sent only from now on.
  std::string trace_back(const ForeignTensor& sent, bool hopeless, bool* is_news);
  template <typename Condition>
  void drop_where(Dropped* dropped, const Condition& condition) FW_REQUIRES(mutex_);
  void drop_idle(std::uint64_t now, Dropped* dropped) FW_REQUIRES(mutex_);

  AllocationSites& sites_;
  std::atomic<std::size_t> edges_held_{0};
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::unordered_map<const Edge*, StagedEdge> edges_ FW_GUARDED_BY(mutex_);
  std::unordered_map<const void*, std::weak_ptr<const StagedCopy>> by_data_ FW_GUARDED_BY(mutex_);
  std::uint64_t cleaned_ FW_GUARDED_BY(mutex_) = 0;  // at this number of steps
};

}  // namespace farwrite::plugin
