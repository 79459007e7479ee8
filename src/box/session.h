// Session: one client at the server, with a thread of its own. A client that stops, is slow or
// sends nonsense holds up no other client.
//
// The thread takes the client's requests in order. While it applies one change, the bytes of the
// next are already on their way (between hosts).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "box/hosted_segment.h"
#include "box/messages.h"
#include "box/workspace.h"
#include "core/mutex.h"
#include "device/channel.h"

namespace farwrite::box {

class ServerState;

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(ServerState& server, Channel channel) : server_(server), channel_(std::move(channel)) {}

  // The thread's work; returns when the client has left or the server closes.
  void run();
  // In place of run(), which has no thread: the client's calls fail with the reason.
  void turn_away(const Status& reason);
  // Ends the thread's waits, but for the workspace's. What it applies it finishes, and begins
  // nothing more.
  void close(std::chrono::nanoseconds timeout) {
    closing_.store(true);
    static_cast<void>(channel_.close(timeout));
  }
  // Whether nothing came from the client for the device's detection time.
  bool silent() const { return channel_.peer_state() == PeerState::kSilent; }
  // Takes the leases that the client has given back, which the session's thread may not have come
  // to, and says whether the client is silent. Also from other threads.
  bool holds_silently() {
    channel_.take_waiting_returns();
    return silent();
  }
  // Also from other threads.
  bool has_attached(std::uint64_t key) const;
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  // A request and, of a change, its bytes.
  struct ReceivedRequest {
    Request request;
    RemoteRegion lent;
    std::shared_ptr<HostedSegment> segment;  // of kChange
    Status status;                           // why a change cannot be made
    // Where the bytes are read to, if they have to be.
    std::optional<Workspace::ScratchMemory> piece;
    std::optional<std::uint32_t> draft;
    std::optional<Completion> read;
  };
  struct ServedWait {
    std::shared_ptr<HostedSegment> segment = {};  // null: it waits for a name
    std::uint64_t id = 0;
  };
  static Result<ReceivedRequest> receive_request(Notification notification);
  // Checks a change and starts to read its bytes. `patient` waits for memory.
  void start(ReceivedRequest& received, bool patient);
  void take_ahead();
  // The memory that a change is read into stays until no more bytes move there.
  static void give_up(ReceivedRequest received);

  void log_end(const Status& reason) const;

  void handle(ReceivedRequest& received);
  // Returns the segment of the request's key. Without one, refuses the request and returns null.
  std::shared_ptr<HostedSegment> find(const Request& request);
  void create(const ReceivedRequest& received);
  // Answers a request with a segment that the table has attached for it, or with its error.
  // False: the client was refused or has left, and has not attached it.
  bool attach(std::uint64_t request, const Result<std::shared_ptr<HostedSegment>>& found);
  // Says that the client has attached the segment. False: it was refused instead.
  bool answer_attached(std::uint64_t request, const HostedSegment& segment);
  // Whether the request still waits: the caller answers it then.
  bool take_wait(std::uint64_t request);
  void answer_wait(std::uint64_t request, const Result<VersionId>& version);
  void change(ReceivedRequest& received);
  void wait_version(const Request& request);
  void wait_name(const Request& request);
  void cancel(std::uint64_t request);
  void stop(const ServedWait& wait);
  void lease(const Request& request);
  void release(std::uint64_t lease);
  void open_buffer(const Request& request);
  void detach(std::uint64_t key);
  void list(std::uint64_t request);
  void describe(const Request& request);
  SegmentInfo listed_info(const HostedSegment& segment) const;
  void leave();

  // An error: the channel has ended.
  Status send(const Reply& reply);
  void reply(const Reply& reply) { static_cast<void>(send(reply)); }
  void refuse(std::uint64_t request, Status status);
  // Refuses a change whose bytes did not come. If the client cannot know, the session ends.
  void lose(std::uint64_t request, Status status);
  // Whether the answer that lends memory could be sent. If not, the client is told so.
  bool lent(std::uint64_t request, const Completion& sent);
  // With a region that the client keeps from being used again until it returns the lease.
  // False: the region could not be lent, and the client was told so.
  bool lend_region(const Reply& reply, const MemoryRegion& region);
  // With the body lent if it is too long for a message.
  // False: there is no room for the body, and the client was told so.
  bool reply_with(Reply reply, std::vector<std::byte> body);
  Result<std::vector<std::byte>> copy_lent(const RemoteRegion& lent, std::uint64_t most);

  ServerState& server_;
  Channel channel_;
  std::atomic<bool> closing_ = false;
  std::atomic<bool> ended_ = false;

  // Of the thread alone.
  bool bytes_lost_ = false;  // and the client was not told: what was sent later must not be applied
  std::optional<ReceivedRequest> ahead_;
  // The loans to the client own the pins: they end when it can read the bytes no longer, which may
  // be long after the session. RELEASE unpins sooner, in the order of the client's changes.
  std::map<std::uint64_t, std::weak_ptr<Pin>> leases_;
  std::uint64_t next_lease_ = 1;

  struct ClientAttachment {
    std::shared_ptr<HostedSegment> segment;
    std::uint32_t times = 0;
    std::uint64_t news = 0;  // the waiter that tells the client when the segment is freed
  };
  // Other threads answer waits, and attach the segment that a name was waiting for.
  mutable core::Mutex mutex_{core::LockRank::kBox, 1};
  std::map<std::uint64_t, ServedWait> waits_ FW_GUARDED_BY(mutex_);  // by request
  std::map<std::uint64_t, ClientAttachment> attachments_ FW_GUARDED_BY(mutex_);
  bool left_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace farwrite::box
