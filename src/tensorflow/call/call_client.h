// CallClient: the calls of this process to its peers that have no answer yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "absl/status/status.h"
#include "call/call_body.h"
#include "core/mutex.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"

namespace farwrite::plugin {

// Thread-safe.
class CallClient {
 public:
  using Number = std::uint64_t;

  explicit CallClient(fw_device* device) : device_(device) {}

  struct Call {
    std::shared_ptr<PeerProcess> peer;
    std::uint64_t server = 0;  // the callee's incarnation
    Method method = Method::kRunGraph;
    std::uint64_t stream = 0;  // as in CallMessage
    std::uint64_t position = 0;
    // Called once before the call is sent, under a lock: by its number it can be cancelled.
    std::function<void(Number)> numbered;
    // Called once, under no lock, maybe on a poller: with the callee's answer, which goes when this
    // returns unless it is kept, or with what ended the call, and null.
    std::function<void(absl::Status, std::shared_ptr<const ArrivedCall>)> done;
  };

  // Begins the call. False: nothing was sent, and nothing will be; `done` was not called. Nothing
  // ends the call before the body has been written: `done` may free what it is written from. Then
  // `written` is called, under no lock; if it returns false the call is dropped, `done` included,
  // and this returns true.
  bool begin(Call call, const CallBody& body, const std::function<bool()>& written = {});
  // Ends the call here at once, and tells the peer. No effect if it has ended.
  void cancel(Number number, const absl::Status& why);
  // Drops what the peer has not begun of a stream; its calls are answered nevertheless.
  void end_stream(std::shared_ptr<PeerProcess> peer, std::uint64_t stream);

  // On a thread of the peer's channel. An error: the peer broke the protocol.
  absl::Status take_answer(PeerProcess& peer, const CallMessage& message, RemoteBytes lent);
  // Ends every call to this peer.
  void peer_ended(const PeerProcess* peer, const absl::Status& status);

 private:
  struct PendingCall : Call {
    explicit PendingCall(Call call) : Call(std::move(call)) {}
    std::atomic<bool> over{false};
    std::atomic<bool> cancelled{false};
  };
  using CallRef = std::shared_ptr<PendingCall>;

  // Null if it has ended.
  CallRef take(Number number);
  void tell_cancelled(Number number, const PendingCall& call);
  static void end_soon(CallRef call, absl::Status status);

  fw_device* const device_;
  std::atomic<Number> last_{0};
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::unordered_map<Number, CallRef> calls_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
