// The head and the body of a call or an answer: on their way out, and when they have come.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "call/call_message.h"
#include "farwrite/c_api.h"
#include "google/protobuf/message.h"
#include "memory/remote_bytes.h"
#include "peer/peer_process.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// On its way out. The body is written once, to where it leaves from.
struct CallBody {
  std::string head;
  std::uint64_t bytes = 0;                 // of the body
  std::function<void(char* to)> write_to;  // writes them all; not called if there are none

  // Without a head. It is written when it is sent, so `message` must live until then.
  static CallBody of(const google::protobuf::Message& message);
  // The same, of what the body owns.
  static CallBody of(std::shared_ptr<const google::protobuf::Message> message);
  // Of an answer that is an error: the head alone.
  static CallBody of(const absl::Status& failure);
};

// Whether protobuf can serialize it.
bool may_be_sent(const google::protobuf::Message& message);

// Sends the message with the body: inside, or lent from registered memory. Fails without harm:
// kResourceExhausted if registered memory has no room, else because the peer has gone or what it
// has not taken fills the queue. `written` is called once the body has been written, and is needed
// no more, before anything is sent; if it returns false nothing is, and the result is kAborted.
absl::Status send_call(PeerProcess& peer, fw_device* device, CallMessage message,
                       const CallBody& body, const std::function<bool()>& written = {});
// For what a caller waits for: tries again as room comes back, until it has been sent or the peer
// has ended. An answer that finds no memory for two seconds becomes an error.
void send_surely(std::shared_ptr<PeerProcess> peer, fw_device* device, CallMessage message,
                 CallBody body);

// Runs its argument on another thread.
using Schedule = std::function<void(std::function<void()>)>;

// What has come.
class ArrivedCall {
 public:
  ArrivedCall() = default;
  // Keeps a copy of what is inside.
  ArrivedCall(const CallMessage& message, RemoteBytes lent);

  // Its view is of this object.
  CallMessage message() const;
  bool is_lent() const { return static_cast<bool>(lent_); }
  // Calls `seen` once, when the head and the body are there: at once if all is inside, else by
  // `schedule`, once what was lent has been mapped, or read if another host lent it. A wait for a
  // silent peer ends once `given_up`, with kCancelled. At most once, before the rest; the caller
  // keeps this until then.
  void see(const Schedule& schedule, std::function<bool()> given_up,
           std::function<void(absl::Status)> seen);
  std::string_view head() const;
  std::string_view body() const;
  // Of what was lent: a tensor of its bytes, in which the body begins at message().body_at(). Of a
  // peer's memory, nothing may write into it, and its buffer says so; what was read is this
  // process' own. Empty if all is inside.
  const tensorflow::Tensor& seen() const { return seen_; }
  bool is_own() const { return is_own_; }
  // False if the body is none of this kind.
  bool parse(google::protobuf::Message* message) const;

 private:
  CallMessage message_;  // but for what is inside
  std::string inside_;
  RemoteBytes lent_;
  tensorflow::Tensor seen_;
  bool is_own_ = false;
};

}  // namespace farwrite::plugin
