// Connection: one HTTP/2 connection of gRPC, whose bytes move from TCP to a stream.
//
// Each direction moves by itself, at a frame's end, once both sides have opened the stream
// (upgrade_frame.h). Whatever stands in the way, the connection stays on TCP as it was.
#pragma once

#include <grpc/slice_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "farwrite/stream.h"
#include "grpc/http2_watcher.h"
#include "grpc/hub.h"
#include "grpc/pair.h"
#include "grpc/upgrade_frame.h"

struct grpc_closure;

namespace farwrite::grpc {

// The TCP endpoint below a connection, and what else a connection needs from this gRPC's version.
// `done` is called once, later.
class Below {
 public:
  using Done = std::function<void(absl::Status)>;
  Below() = default;
  Below(const Below&) = delete;
  Below& operator=(const Below&) = delete;
  virtual ~Below() = default;

  virtual void read(grpc_slice_buffer* into, bool urgent, int min_progress, Done done) = 0;
  virtual void write(grpc_slice_buffer* from, void* argument, int max_frame, Done done) = 0;
  // Ends both directions: what is pending ends with `why`.
  virtual void shutdown(absl::Status why) = 0;
  // No call comes after it. What is pending still ends.
  virtual void destroy() = 0;
  // Calls gRPC's closure in gRPC's way, never in this call.
  virtual void schedule(grpc_closure* closure, absl::Status status) = 0;
  // An error that lets programs call again.
  virtual absl::Status unavailable(const std::string& text) = 0;
  // Has gRPC's poller deliver for the pair, as long as something keeps the result. Null if no
  // descriptor is left.
  virtual std::shared_ptr<void> watch(const std::shared_ptr<Pair>& pair) = 0;
};

// Both ends of the socket, as text. Empty for a unix socket.
struct SocketAddresses {
  std::string local;
  std::string remote;
};

// Thread-safe, except that destroy() is the last call.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<Below> below, SocketAddresses addresses)
      : below_(std::move(below)), addresses_(std::move(addresses)) {
    grpc_slice_buffer_init(&own_write_);
    grpc_slice_buffer_init(&guard_);
  }
  ~Connection() {
    grpc_slice_buffer_destroy(&own_write_);
    grpc_slice_buffer_destroy(&guard_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // gRPC's endpoint operations.
  void read(grpc_slice_buffer* into, grpc_closure* closure, bool urgent, int min_progress);
  void write(grpc_slice_buffer* from, grpc_closure* closure, void* argument, int max_frame);
  void shutdown(const absl::Status& why);
  void destroy();
  // What was written still reaches the peer, which takes it within a time.
  void finish_stream();

 private:
  enum class Transport : std::uint8_t { kTcp, kStream };
  // What this side waits for.
  enum class Stage : std::uint8_t {
    kUndecided,   // the first frames
    kOffered,     // client: kAnswer
    kConnecting,  // client: the channel
    kReady,       // client: kSwitch
    kAnswered,    // server: kReady
    kOpening,     // server: the channel
    kSwitching,   // server: the client's kSwitch
    kUpgraded,
    kStays,  // nothing: TCP
  };
  struct Reader {
    grpc_slice_buffer* into = nullptr;
    grpc_closure* closure = nullptr;
  };
  struct Writer {
    grpc_slice_buffer* from = nullptr;
    grpc_closure* closure = nullptr;
    void* argument = nullptr;
    int max_frame = 0;
  };

  // TCP.
  void tcp_read(const Reader& reader, bool urgent, int min_progress);
  void tcp_has_read(const absl::Status& status);
  bool waits_for_upgrade() const FW_REQUIRES(mutex_);
  void tcp_write(const Writer& writer);
  void tcp_has_written(const absl::Status& status);
  void tcp_has_ended(const absl::Status& why);
  void write_own_frames();
  void guard();
  void guard_ended(const absl::Status& status);

  // The frames that pass.
  void watch_incoming(const grpc_slice_buffer& slices) FW_REQUIRES(mutex_);
  // Leaves in `slices` what is to be written; if it has to wait for the upgrade, what comes first
  // is in own_write_.
  void watch_outgoing(grpc_slice_buffer* slices) FW_REQUIRES(mutex_);
  void saw_incoming(Http2Watcher::Event event, bool last) FW_REQUIRES(mutex_);
  void saw_outgoing(Http2Watcher::Event event) FW_REQUIRES(mutex_);
  void take_frame(bool last) FW_REQUIRES(mutex_);
  void take_hello(const UpgradeFrame& frame) FW_REQUIRES(mutex_);
  void take_answer(const UpgradeFrame& frame) FW_REQUIRES(mutex_);
  void take_ready(const UpgradeFrame& frame) FW_REQUIRES(mutex_);
  void take_switch(bool last) FW_REQUIRES(mutex_);
  void stay(const std::string& reason) FW_REQUIRES(mutex_);
  void breach(const std::string& what) FW_REQUIRES(mutex_);

  // The upgrade.
  std::string refusal(const UpgradeFrame& peer, Hub& hub) FW_REQUIRES(mutex_);
  void has_pair(const Result<std::shared_ptr<Pair>>& pair);
  UpgradeFrame frame(UpgradeKind kind) const FW_REQUIRES(mutex_);

  // The stream.
  void stream_read();
  void stream_has_read(Result<std::vector<stream::Slice>> slices);
  void stream_write(grpc_slice_buffer* from, grpc_closure* closure);
  void stream_has_written(const Status& status);
  void fail(const absl::Status& why);

  const std::unique_ptr<Below> below_;
  const SocketAddresses addresses_;

  core::Mutex mutex_{core::LockRank::kProgram, 3};
  Stage stage_ FW_GUARDED_BY(mutex_) = Stage::kUndecided;
  Transport reading_ FW_GUARDED_BY(mutex_) = Transport::kTcp;
  Transport writing_ FW_GUARDED_BY(mutex_) = Transport::kTcp;
  absl::Status over_ FW_GUARDED_BY(mutex_);   // why both directions have ended
  std::string breach_ FW_GUARDED_BY(mutex_);  // the peer broke the rules of the upgrade

  Http2Watcher incoming_ FW_GUARDED_BY(mutex_);
  Http2Watcher outgoing_ FW_GUARDED_BY(mutex_);
  std::string own_frames_ FW_GUARDED_BY(mutex_);  // to be put into what is written to TCP
  bool switch_due_ FW_GUARDED_BY(mutex_) =
      false;  // kSwitch is to be written, as the last bytes on TCP
  UpgradeFrame upgrade_ FW_GUARDED_BY(mutex_);  // nonces and the number of the stream
  DeviceUuid peer_device_ FW_GUARDED_BY(mutex_){};
  bool needs_mapping_ FW_GUARDED_BY(mutex_) =
      false;  // only mapped memory proves that nothing is in between

  Reader reader_ FW_GUARDED_BY(mutex_);
  grpc_closure* tcp_writer_ FW_GUARDED_BY(mutex_) = nullptr;     // gRPC's write under way on TCP
  grpc_closure* stream_writer_ FW_GUARDED_BY(mutex_) = nullptr;  // on the stream
  Writer queued_ FW_GUARDED_BY(mutex_);                          // waits for a write of our own
  bool tcp_writes_ FW_GUARDED_BY(mutex_) = false;                // a write to TCP is under way
  grpc_slice_buffer own_write_ FW_GUARDED_BY(mutex_){};
  grpc_slice_buffer guard_ FW_GUARDED_BY(mutex_){};  // of the read that finds TCP's end
  bool guarding_ FW_GUARDED_BY(mutex_) = false;
  bool covered_ FW_GUARDED_BY(mutex_) = false;  // the keeper looks after the write under way
  bool finished_ FW_GUARDED_BY(mutex_) = false;
  bool destroyed_ FW_GUARDED_BY(mutex_) = false;

  std::shared_ptr<Pair> pair_ FW_GUARDED_BY(mutex_);
  std::shared_ptr<Pair> known_
      FW_GUARDED_BY(mutex_);  // found at once: has_pair() is due, without the lock
  std::shared_ptr<void> watch_ FW_GUARDED_BY(mutex_);
  stream::Stream stream_;  // once writing_ is kStream, for ever
};

}  // namespace farwrite::grpc
