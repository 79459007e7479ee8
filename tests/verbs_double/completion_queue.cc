#include "verbs_double/completion_queue.h"

#include "verbs_double/queue_pair.h"

namespace farwrite::verbs_double {

CompletionQueue::CompletionQueue(Adapter& owner, ibv_context* on, int entries,
                                 ibv_comp_channel* announces)
    : ibv_cq{}, adapter(owner) {
  context = on;
  channel = announces;
  cqe = entries;
}

bool CompletionQueue::add(const Entry& entry) {
  const std::lock_guard guard(lock);
  if (entries_.size() >= static_cast<std::size_t>(cqe)) return false;
  entries_.push_back(entry);
  if (armed && channel != nullptr) {
    armed = false;
    static_cast<CompletionChannel*>(channel)->events.push(this);
  }
  return true;
}

int CompletionQueue::poll(int entries, ibv_wc* completions) {
  const std::lock_guard guard(lock);
  int taken = 0;
  while (taken < entries && !entries_.empty()) {
    const Entry& entry = entries_.front();
    completions[taken++] = entry.completion;
    if (entry.pair != nullptr) entry.pair->free_through(entry.receive, entry.number);
    entries_.pop_front();
  }
  return taken;
}

void CompletionQueue::arm() {
  const std::lock_guard guard(lock);
  armed = true;
}

void CompletionQueue::forget(const QueuePair* pair, bool keep) {
  const std::lock_guard guard(lock);
  std::erase_if(entries_, [&](Entry& entry) {
    if (entry.pair != pair) return false;
    entry.pair = nullptr;
    return !keep;
  });
}

}  // namespace farwrite::verbs_double
