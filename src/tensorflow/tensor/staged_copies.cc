#include "tensor/staged_copies.h"

#include <cstring>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "tensorflow/core/common_runtime/dma_helper.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// Other buffers in a row until an edge is given up on. A variable takes three, and tensors of
// parallel steps a few more.
constexpr std::uint32_t kTries = 8;
// Without a new site, eager copies have tracing turned on as many times.
constexpr std::uint32_t kUnnamedTries = 8;
constexpr std::uint64_t kIdleSteps = 64;
constexpr std::size_t kMaxEdges = 4096;

std::atomic<std::uint32_t> unnamed_tries{0};

const void* block_of(const tf::Tensor& tensor) {
  tf::TensorBuffer* const buffer = tf::DMAHelper::buffer(const_cast<tf::Tensor*>(&tensor));
  return buffer->root_buffer()->data();
}

// A partitioned graph calls its edges edge_1_name; an eager copy has a number that never comes
// back.
bool named_by_partitioning(const Edge& edge) {
  return edge.name().find(";edge_") != std::string::npos;
}

}  // namespace

// What is to be destroyed once nothing is locked any more: tensors free memory, and a peer's last
// reference closes its channel.
struct StagedCopies::Dropped {
  std::vector<std::shared_ptr<const StagedCopy>> copies;
  std::vector<std::shared_ptr<PeerProcess>> peers;
};

StagedCopies& StagedCopies::of_process() {
  static StagedCopies* const only = [] {
    auto* const made = new StagedCopies(AllocationSites::of_process());
    release_when_short([] { return of_process().release_all(); });
    return made;
  }();
  return *only;
}

std::shared_ptr<const StagedCopy> StagedCopies::same_buffer(const ForeignTensor& sent,
                                                            const StagedEdge& state) const {
  const auto fitting = [&](const std::shared_ptr<const StagedCopy>& copy) {
    return copy != nullptr && copy->device == sent.device &&
           copy->tensor.data() == sent.tensor.data() &&
           copy->tensor.TotalBytes() == sent.tensor.TotalBytes();
  };
  if (fitting(state.copy)) return state.copy;
  const auto other = by_data_.find(sent.tensor.data());  // another edge's
  const std::shared_ptr<const StagedCopy> copy =
      other == by_data_.end() ? nullptr : other->second.lock();
  return fitting(copy) ? copy : nullptr;
}

std::string StagedCopies::trace_back(const ForeignTensor& sent, bool hopeless, bool* is_news) {
  const AllocationSites::Site site = sites_.site_of(block_of(sent.tensor));
  *is_news = sites_.mark_sent(site);
  if (*is_news || (site == AllocationSites::kUnknown && !hopeless)) sites_.trace();
  std::string reason = "staged: allocated by " + sites_.describe(site);
  if (*is_news) {
    reason += ", seen for the first time";
  } else if (sites_.sent(site)) {
    reason += " before its tensors were known to be sent, or when registered memory was full";
  }
  return reason;
}

std::shared_ptr<const StagedCopy> StagedCopies::held_for(const ForeignTensor& sent,
                                                         std::uint64_t now) {
  Dropped dropped;
  const core::Lock lock(mutex_);
  drop_idle(now, &dropped);
  StagedEdge& state = edges_[sent.edge.get()];
  edges_held_.store(edges_.size());
  if (state.edge.lock() != sent.edge || state.graphs != sites_.graphs()) state.tries = 0;
  state.edge = sent.edge;
  state.peer = sent.peer;
  state.graphs = sites_.graphs();
  state.used = now;
  const std::shared_ptr<const StagedCopy> again = same_buffer(sent, state);
  if (again != state.copy) dropped.copies.push_back(std::exchange(state.copy, again));
  return again;
}

Staged StagedCopies::find(const ForeignTensor& sent, bool* worth_holding) {
  const std::uint64_t now = sites_.saw_step(sent.step);
  const bool in_graph = sent.edge->in_graph();
  *worth_holding = false;
  bool is_news = false;
  if (!in_graph && !named_by_partitioning(*sent.edge)) {
    sent.edge->explain(trace_back(sent, unnamed_tries.fetch_add(1) >= kUnnamedTries, &is_news));
    if (is_news) unnamed_tries.store(0);
    return nullptr;
  }
  const std::shared_ptr<const StagedCopy> again = held_for(sent, now);
  if (again != nullptr) {
    // What the graph does not rule out must be looked at: it may be a ref variable after all.
    if (in_graph ||
        std::memcmp(again->memory.get(), sent.tensor.data(), sent.tensor.TotalBytes()) == 0) {
      sent.edge->explain(
          "staged once: allocated outside registered memory, and it does not change");
      return again->memory;
    }
    will_change(sent.tensor);
  }
  std::string reason;
  {
    const core::Lock lock(mutex_);
    const std::uint32_t tries = ++edges_[sent.edge.get()].tries;
    const bool hopeless = tries > kTries;
    reason = trace_back(sent, hopeless, &is_news);
    if (hopeless) {
      reason += "; no copy was held after " + std::to_string(kTries) + " tries";
    } else if (sent.edge->facts().variable || !in_graph || !is_news) {
      *worth_holding = may_hold(sent.device, sent.tensor.TotalBytes());
      if (!*worth_holding) reason += "; too large to be held until it is replaced";
    }
  }
  sent.edge->explain(std::move(reason));
  return nullptr;
}

Staged StagedCopies::hold(const ForeignTensor& sent, Staged staged) {
  auto copy = std::make_shared<StagedCopy>();
  copy->tensor = sent.tensor;
  copy->device = sent.device;
  copy->memory = plugin::hold(std::move(staged), sent.tensor.TotalBytes());
  Dropped dropped;
  const core::Lock lock(mutex_);
  const auto state = edges_.find(sent.edge.get());
  if (state == edges_.end()) return copy->memory;  // let go of meanwhile
  dropped.copies.push_back(std::exchange(state->second.copy, copy));
  by_data_[sent.tensor.data()] = copy;
  return copy->memory;
}

template <typename Condition>
void StagedCopies::drop_where(Dropped* dropped, const Condition& condition) {
  for (auto state = edges_.begin(); state != edges_.end();) {
    if (condition(state->second)) {
      dropped->copies.push_back(std::move(state->second.copy));
      state = edges_.erase(state);
    } else {
      ++state;
    }
  }
  edges_held_.store(edges_.size());
}

void StagedCopies::drop_idle(std::uint64_t now, Dropped* dropped) {
  if (now == cleaned_) return;
  cleaned_ = now;
  // More edges than there is room for: those that did not send in this very step.
  const std::uint64_t idle = edges_.size() < kMaxEdges ? kIdleSteps : 0;
  drop_where(dropped, [&](const StagedEdge& state) {
    return state.used + idle < now || state.edge.expired();
  });
  for (auto copy = by_data_.begin(); copy != by_data_.end();) {
    copy = copy->second.expired() ? by_data_.erase(copy) : std::next(copy);
  }
}

void StagedCopies::let_go(const Edge& edge, std::int64_t step) {
  const std::uint64_t now = sites_.saw_step(step);
  Dropped dropped;
  const core::Lock lock(mutex_);
  drop_idle(now, &dropped);
  const auto state = edges_.find(&edge);
  if (state == edges_.end()) return;
  dropped.copies.push_back(std::move(state->second.copy));
  edges_.erase(state);
  edges_held_.store(edges_.size());
}

void StagedCopies::will_change(const tf::Tensor& tensor) {
  if (edges_held_.load(std::memory_order_relaxed) == 0) return;
  Dropped dropped;
  const core::Lock lock(mutex_);
  const void* const block = block_of(tensor);
  drop_where(&dropped, [&](const StagedEdge& state) {
    return state.copy != nullptr && block_of(state.copy->tensor) == block;
  });
}

void StagedCopies::peer_ended() {
  Dropped dropped;
  const core::Lock lock(mutex_);
  drop_where(&dropped, [&](const StagedEdge& state) {
    std::shared_ptr<PeerProcess> peer = state.peer.lock();
    const bool ended = peer == nullptr || peer->ended();
    dropped.peers.push_back(std::move(peer));
    return ended;
  });
}

bool StagedCopies::release_all() {
  Dropped dropped;
  const core::Lock lock(mutex_);
  drop_where(&dropped, [](const StagedEdge& state) { return state.copy != nullptr; });
  return !dropped.copies.empty();
}

}  // namespace farwrite::plugin
