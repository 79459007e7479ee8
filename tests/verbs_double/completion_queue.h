// CompletionQueue: a bounded queue of completions that announces the next one when armed.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <mutex>

#include "verbs_double/event_queue.h"

namespace farwrite::verbs_double {

struct Adapter;
struct QueuePair;

struct CompletionChannel : ibv_comp_channel {
  EventQueue<ibv_cq*> events;
};

// Thread-safe. The lock orders the adapter's movement of bytes before the thread that polls.
struct CompletionQueue : ibv_cq {
  // Whose completion, and which of its requests that frees.
  struct Entry {
    ibv_wc completion{};
    QueuePair* pair = nullptr;  // null: destroyed since
    bool receive = false;
    std::uint64_t number = 0;
  };

  CompletionQueue(Adapter& owner, ibv_context* on, int entries, ibv_comp_channel* announces);

  // False if it was full: the completion is lost, as it is on a real one.
  bool add(const Entry& entry);
  int poll(int entries, ibv_wc* completions);
  void arm();
  // What a queue pair that goes leaves behind: dropped, or kept without an owner.
  void forget(const QueuePair* pair, bool keep);

  Adapter& adapter;
  std::mutex lock;
  std::deque<Entry> entries_;      // under `lock`
  bool armed = false;              // under `lock`
  std::uint32_t events_taken = 0;  // under `lock`
  std::uint32_t events_acked = 0;  // under `lock`
  std::uint32_t users = 0;         // queue pairs; under Adapter::objects
};

}  // namespace farwrite::verbs_double
