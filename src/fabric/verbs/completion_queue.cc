#include "fabric/verbs/completion_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/log.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr int kEntries = 8192;  // of one adapter's queue, where it allows so many
constexpr int kAtOnce = 32;

Status refused(std::string_view what, int error) {
  return Status::system_error(StatusCode::kResourceExhausted, {"connect", "", "verbs"}, what, error,
                              "close channels, or use fewer lanes; the adapter's limits are in "
                              "`ibv_devinfo -v`");
}

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(VerbsLibrary& library,
                                                                 ibv_context* context,
                                                                 int max_entries) {
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue(library, context, max_entries));
  queue->channel_ = library.create_comp_channel(context);
  if (queue->channel_ == nullptr) return refused("no completion channel", errno);
  const int flags = ::fcntl(queue->channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(queue->channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return refused("the completion channel cannot be made non-blocking", errno);
  }
  return queue;
}

CompletionQueue::~CompletionQueue() {
  arm();  // takes and acknowledges what events are left: the queues' end waits for that
  for (const Queue& queue : queues_) (void)library_.destroy_cq(queue.queue);
  if (channel_ != nullptr) (void)library_.destroy_comp_channel(channel_);
}

Result<CompletionQueue::Place> CompletionQueue::add(QueueClient& client, std::uint32_t entries) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto most = static_cast<std::uint32_t>(std::min(kEntries, max_entries_));
  auto found = std::find_if(queues_.begin(), queues_.end(),
                            [&](const Queue& queue) { return queue.used + entries <= most; });
  if (found == queues_.end()) {
    Queue queue;
    queue.queue = library_.create_cq(context_, static_cast<int>(std::max(most, entries)), channel_);
    if (queue.queue == nullptr) return refused("no completion queue", errno);
    found = queues_.insert(queues_.end(), queue);
  }
  found->used += entries;
  const Place place{found->queue, next_client_++, entries};
  clients_.emplace(place.client, &client);
  return place;
}

void CompletionQueue::remove(const Place& place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  clients_.erase(place.client);
  for (Queue& queue : queues_) {
    if (queue.queue == place.queue) queue.used -= place.entries;
  }
}

void CompletionQueue::look() {
  const std::lock_guard<std::mutex> lock(mutex_);
  look_locked();
}

void CompletionQueue::try_look() {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) look_locked();
}

void CompletionQueue::look_locked() {
  std::vector<QueueClient*> touched;
  std::array<ibv_wc, kAtOnce> completions;
  for (const Queue& queue : queues_) {
    int count = kAtOnce;
    while (count == kAtOnce) {
      count = library_.poll_cq(queue.queue, kAtOnce, completions.data());
      for (int i = 0; i < count; ++i) {
        const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
        const auto found = clients_.find(static_cast<std::uint32_t>(completion.wr_id >> 32));
        if (found == clients_.end()) continue;  // of a lane that has gone
        found->second->on_work(completion, static_cast<std::uint32_t>(completion.wr_id));
        if (std::find(touched.begin(), touched.end(), found->second) == touched.end()) {
          touched.push_back(found->second);
        }
      }
      // Now and not at the end: there may be no end while others take and send, and what a lane
      // has received wants new receives.
      for (QueueClient* client : touched) client->on_looked_at();
      touched.clear();
    }
    if (count < 0 && !unreadable_) {
      unreadable_ = true;
      core::log(core::LogLevel::kError, "verbs: a completion queue cannot be read");
    }
  }
}

void CompletionQueue::arm() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (channel_ == nullptr) return;
  ibv_cq* rung = nullptr;
  while (library_.get_cq_event(channel_, &rung) == 0) library_.ack_cq_events(rung, 1);
  for (const Queue& queue : queues_) (void)library_.req_notify_cq(queue.queue);
}

}  // namespace farwrite::fabric::verbs
