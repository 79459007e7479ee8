#include "stream/stream_link.h"

#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/start_thread.h"
#include "core/with_memory.h"

namespace farwrite::stream {
namespace {

// A wait for a silent peer looks so often whether its streams are still there.
constexpr std::chrono::milliseconds kTurn(100);

}  // namespace

void StreamLink::Jobs::work() {
  core::Lock lock(mutex);
  while (true) {
    changed.wait(mutex, [&]() FW_REQUIRES(mutex) { return stopping || !queue.empty(); });
    if (queue.empty()) return;
    std::function<void()> job = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

bool StreamLink::Jobs::is_stopping() {
  const core::Lock lock(mutex);
  return stopping;
}

StreamLink::~StreamLink() {
  {
    const core::Lock lock(jobs_->mutex);
    jobs_->stopping = true;
  }
  jobs_->changed.notify_all();
  if (!worker_.joinable()) return;
  if (worker_.get_id() == std::this_thread::get_id()) {
    worker_.detach();
  } else {
    worker_.join();
  }
}

Status StreamLink::start() {
  if (!channel_.maps_peer_memory()) return Status();
  return core::start_thread(worker_, {"map lent memory", channel_.peer_name()},
                            [jobs = jobs_] { jobs->work(); });
}

void StreamLink::reach(const RemoteRegion& lent, std::function<void(const Status&)> reached) {
  {
    const core::Lock lock(jobs_->mutex);
    jobs_->queue.emplace_back(
        [jobs = jobs_.get(), channel = channel_, lent, reached = std::move(reached)]() mutable {
          Status status;
          do {
            status = channel.alias(lent, 0, 0, kTurn).status();
          } while (status.code() == StatusCode::kDeadlineExceeded && !jobs->is_stopping());
          reached(status);
        });
  }
  jobs_->changed.notify_one();
}

void StreamLink::tell(const StreamFrame& frame) {
  const std::vector<std::byte> message = frame.head();
  static_cast<void>(channel_.tell({message.data(), message.size()}, 0, lane(frame.stream)));
}

void StreamLink::tell(const StreamFrame& frame, const Status& reason) {
  const std::vector<std::byte> message = frame.with_reason(reason);
  static_cast<void>(channel_.tell({message.data(), message.size()}, 0, lane(frame.stream)));
}

Result<StreamLink::StreamBuffer> StreamLink::buffer(std::uint64_t bytes, bool registered,
                                                    std::function<void()> freed) {
  if (registered) {
    if (Result<std::shared_ptr<std::byte>> memory = device_.allocate_owned(bytes); memory.ok()) {
      std::byte* const raw = memory->get();
      return StreamBuffer{
          raw, std::shared_ptr<const void>(raw, [owned = *std::move(memory),
                                                 freed = std::move(freed)](const void*) mutable {
            owned.reset();
            if (freed) freed();
          })};
    }
  }
  auto* const heap = new (std::nothrow) std::byte[bytes];
  if (heap == nullptr) {
    if (freed) freed();
    return core::no_memory({.operation = "use a stream", .peer = channel_.peer_name()},
                           std::to_string(bytes) + " bytes");
  }
  return StreamBuffer{
      heap, std::shared_ptr<const void>(heap, [freed = std::move(freed)](const void* data) {
        delete[] static_cast<const std::byte*>(data);
        if (freed) freed();
      })};
}

}  // namespace farwrite::stream
