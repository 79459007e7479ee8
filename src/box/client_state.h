// ClientState: what a Client's handles share: the device, the channel to the server, and the
// requests that wait for their answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "box/box.h"
#include "box/messages.h"
#include "box/reply_taker.h"
#include "core/deadline.h"
#include "core/fork_guard.h"
#include "core/gate.h"
#include "core/mutex.h"
#include "device/channel.h"
#include "device/device.h"

namespace farwrite::box {

class SegmentState;

// Thread-safe.
class ClientState : public std::enable_shared_from_this<ClientState> {
 public:
  // An answer, with what it lends.
  struct ReceivedReply {
    Reply reply;
    RemoteRegion lent;
  };
  // On a poller's thread or the control loop, or in the call that posts: it must not block.
  using OnAnswer = std::function<void(Result<ReceivedReply>)>;

  static Result<std::shared_ptr<ClientState>> connect(const Endpoint& server,
                                                      const ClientOptions& options);
  ~ClientState();
  ClientState(const ClientState&) = delete;
  ClientState& operator=(const ClientState&) = delete;

  Channel& channel() { return channel_; }
  Device& device() { return device_; }
  const core::ForkGuard& fork_guard() const { return fork_guard_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  // When a call stops waiting for so many bytes, or for an answer. The client's timeout bounds it
  // where the call has none. A call that would wait less than that takes allows that much.
  core::Deadline answer_by(const core::Deadline& call, std::uint64_t bytes = 0) const;
  // When a call stops waiting for what other clients do: never, where it has no timeout.
  core::Deadline others_by(const core::Deadline& call) const;

  // Sends a request and returns its number; 0 if it failed, and then `on_answer` was called.
  std::uint64_t post(Request request, OnAnswer on_answer);
  // With a lease on `memory`, which `returned` ends (Channel::lend()). If the request fails it is
  // never called.
  std::uint64_t post(Request request, ByteView memory, std::function<void()> returned,
                     OnAnswer on_answer);
  // Copies `memory` into memory that the server can read, unless it is that already. The result's
  // owner frees it.
  struct Lendable {
    ByteView memory;
    std::shared_ptr<void> owner;  // null: the caller's own
  };
  Result<Lendable> lendable(ByteView memory);

  // Sends and waits. An error of the server is an error of the call.
  Result<ReceivedReply> call(Request request, std::chrono::nanoseconds timeout);
  // With memory that is lent until the answer.
  Result<ReceivedReply> call(Request request, const Lendable& lendable);
  Result<ReceivedReply> call(Request request) { return call(std::move(request), timeout_); }
  // Sends what has no answer.
  void tell(Request request);
  // As call(), of a request that `post` posts. `late` takes an answer that comes after the
  // timeout; without one it is given back.
  Result<ReceivedReply> await(Verb verb, std::chrono::nanoseconds timeout,
                              const std::function<std::uint64_t(OnAnswer)>& post,
                              OnAnswer late = nullptr);
  // Waits for what `post` posts, until `over()` or until it has to be waited for in another way
  // (ReplyTaker::drive()).
  void drive(const std::function<void()>& post, const std::function<bool()>& over,
             core::Deadline deadline);
  std::uint64_t drives() const { return taker_->drives(); }
  // Nothing waits any more for a read whose end may call the program.
  void give_up(const Completion& read) { taker_->make_way_until_settled(read); }
  // Ends a request here and at the server. No effect if it has its answer.
  void withdraw(std::uint64_t id, const Status& reason);
  // The answer is not wanted any more, but for `late`: false if it has come.
  bool forget(std::uint64_t id, OnAnswer late = nullptr);
  // Frees the segment of an answer, without waiting.
  void discard(std::uint64_t key);

  // The SegmentInfos of an answer.
  Result<std::vector<SegmentInfo>> infos(const ReceivedReply& answer);

  // kFailedPrecondition in a callback of this client, where nothing may wait for the server: its
  // answer needs this very thread.
  Status check_wait() const;

  // The reason of the connection's end, as soon as any call can know of it. Mapped memory of the
  // server outlives it, so the code that reads there asks.
  Status check(std::string_view operation);

  // A program looks at the server's memory as long as the result lives. close() leaves the device
  // open meanwhile, so that the server learns of the end. kCancelled after close().
  Result<std::shared_ptr<const void>> begin_view();

  // Segments are notified when theirs was freed.
  void add_segment(const std::shared_ptr<SegmentState>& segment);

  struct ClientCounters {
    std::atomic<std::uint64_t> reads = 0;
    std::atomic<std::uint64_t> read_retries = 0;
    std::atomic<std::uint64_t> leased_reads = 0;
    std::atomic<std::uint64_t> changes = 0;
    std::atomic<std::uint64_t> staged_bytes = 0;
    std::atomic<std::uint64_t> leases = 0;
  };
  ClientCounters& counters() { return counters_; }
  // Closed before segments lose what they hold of the server's memory.
  core::Gate& gate() { return gate_; }
  Status close(std::chrono::nanoseconds timeout);
  // The lease or the attachment of an answer that nothing waits for any more.
  void give_back(const ReceivedReply& late);

 private:
  struct PendingReply {
    Verb verb;
    OnAnswer on_answer;
  };

  ClientState(Device device, Channel channel, std::chrono::nanoseconds timeout)
      : device_(std::move(device)), channel_(std::move(channel)), timeout_(timeout) {}
  void take(Notification notification);
  void answer(const OnAnswer& on_answer, Result<ReceivedReply> answer);
  void end(const Status& reason);
  void end_view();
  static Status closed();
  std::vector<std::shared_ptr<SegmentState>> segments();  // that live
  std::uint64_t add_pending(Verb verb, OnAnswer on_answer);
  // `late` takes an answer that comes after the timeout; without one it is given back.
  // For `late` of a creation: nothing knows of the segment, and nothing else would free it.
  OnAnswer free_created(const Request& request);
  // Fails the request if it cannot be sent.
  void fail_with(const Completion& sent, std::uint64_t id);
  void fail(std::uint64_t id, const Status& reason);

  const core::ForkGuard fork_guard_;
  Device device_;
  Channel channel_;
  const std::chrono::nanoseconds timeout_;
  std::shared_ptr<ReplyTaker> taker_;  // fixed by connect()
  ClientCounters counters_;
  core::Gate gate_;
  std::atomic<std::uint64_t> views_ = 0;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> over_ = false;  // ended_ is not ok

  core::Mutex mutex_{core::LockRank::kBox};
  std::map<std::uint64_t, PendingReply> pending_ FW_GUARDED_BY(mutex_);
  std::uint64_t next_id_ FW_GUARDED_BY(mutex_) = 1;
  Status ended_ FW_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<SegmentState>> segments_ FW_GUARDED_BY(mutex_);
  // How many segments_ has when it is swept again: a sweep for each would take their square.
  std::size_t next_sweep_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace farwrite::box
