#include "call/call_body.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/work_queue.h"
#include "memory/room.h"
#include "memory/staging.h"
#include "stats/stats.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kWaitsForMemory(2);

// `until`: max() unless the try before found no memory.
void send_surely(std::shared_ptr<PeerProcess> peer, fw_device* device, CallMessage message,
                 CallBody body, Clock::time_point until) {
  const std::uint64_t returns = Room::returns();
  const absl::Status sent = send_call(*peer, device, message, body);
  if (sent.ok() || peer->ended()) return;
  if (!absl::IsResourceExhausted(sent)) {
    until = Clock::time_point::max();
  } else if (until == Clock::time_point::max()) {
    until = Clock::now() + kWaitsForMemory;
  } else if (message.ok && Clock::now() >= until) {
    message.ok = false;
    return send_surely(std::move(peer), device, message, CallBody::of(sent), until);
  }
  Room::of_process().wait(
      returns, [peer = std::move(peer), device, message, body = std::move(body), until]() mutable {
        send_surely(std::move(peer), device, message, std::move(body), until);
      });
}

}  // namespace

bool may_be_sent(const google::protobuf::Message& message) {
  return message.ByteSizeLong() <= INT32_MAX;
}

CallBody CallBody::of(const google::protobuf::Message& message) {
  CallBody body;
  body.bytes = message.ByteSizeLong();
  body.write_to = [&message, bytes = static_cast<int>(body.bytes)](char* to) {
    (void)message.SerializeToArray(to, bytes);  // its size is known, and it has all fields
  };
  return body;
}

CallBody CallBody::of(std::shared_ptr<const google::protobuf::Message> message) {
  CallBody body = of(*message);
  body.write_to = [owner = std::move(message), write = std::move(body.write_to)](char* to) {
    write(to);
  };
  return body;
}

CallBody CallBody::of(const absl::Status& failure) {
  CallBody body;
  body.head = encode_status(failure);
  return body;
}

absl::Status send_call(PeerProcess& peer, fw_device* device, CallMessage message,
                       const CallBody& body, const std::function<bool()>& written) {
  const auto not_wanted = [&written] { return written && !written(); };
  const auto aborted = [] {
    return absl::AbortedError("Farwrite: the call is not wanted any more");
  };
  message.head_bytes = body.head.size();
  message.body_bytes = body.bytes;
  message.inside = body.head;
  std::string inside = encode(message);
  if (peer.takes(inside.size() + body.bytes)) {
    const std::size_t fields_and_head = inside.size();
    inside.resize(fields_and_head + body.bytes);
    if (body.bytes > 0) body.write_to(inside.data() + fields_and_head);
    return not_wanted() ? aborted() : peer.send(inside, kCallTag);
  }
  if (!peer.takes(inside.size()) || body.bytes == 0) message.inside = {};
  void* memory = nullptr;
  auto lent = std::make_unique<LentTensor>();
  lent->copy = stage_room(device, message.lent_bytes(), &memory);
  if (lent->copy == nullptr) {
    return absl::ResourceExhaustedError("Farwrite: no registered memory for the " +
                                        std::to_string(message.lent_bytes()) +
                                        " bytes of a call; raise FARWRITE_SEND_LIMIT");
  }
  char* const bytes = static_cast<char*>(memory);
  if (!message.head_inside()) {
    std::memcpy(bytes, body.head.data(), body.head.size());
    // Nothing of what was there leaves the process.
    std::memset(bytes + body.head.size(), 0, message.body_at() - body.head.size());
  }
  if (body.bytes > 0) body.write_to(bytes + message.body_at());
  if (not_wanted()) return aborted();
  const absl::Status sent =
      peer.lend(encode(message), memory, message.lent_bytes(), std::move(lent), kCallTag);
  return sent.ok() ? sent : absl::UnavailableError(sent.message());
}

void send_surely(std::shared_ptr<PeerProcess> peer, fw_device* device, CallMessage message,
                 CallBody body) {
  send_surely(std::move(peer), device, message, std::move(body), Clock::time_point::max());
}

ArrivedCall::ArrivedCall(const CallMessage& message, RemoteBytes lent)
    : message_(message), inside_(message.inside), lent_(std::move(lent)) {
  message_.inside = {};
}

CallMessage ArrivedCall::message() const {
  CallMessage message = message_;
  message.inside = inside_;
  return message;
}

void ArrivedCall::see(const Schedule& schedule, std::function<bool()> given_up,
                      std::function<void(absl::Status)> seen) {
  const std::uint64_t bytes = message().lent_bytes();
  const auto fail = [&](const absl::Status& why) {
    lent_ = RemoteBytes();
    schedule([seen, why] { seen(why); });
  };
  const absl::Status without_body =
      absl::InternalError("Farwrite: a call came without its body, or with more");
  if (!lent_) {
    seen(bytes == 0 ? absl::OkStatus() : without_body);
    return;
  }
  if (bytes == 0 || lent_.size() != bytes) {
    fail(without_body);
    return;
  }
  const tf::TensorShape shape({static_cast<std::int64_t>(bytes)});
  is_own_ = lent_.unmapped();
  if (is_own_) {
    seen_ = tf::Tensor(tf::cpu_allocator(), tf::DT_UINT8, shape);
    if (!seen_.IsInitialized()) {
      fail(absl::ResourceExhaustedError("Farwrite: no memory for a call of " +
                                        std::to_string(bytes) + " bytes"));
      return;
    }
    std::move(lent_).read(seen_.data(), [schedule, seen = std::move(seen)](absl::Status status) {
      if (status.ok()) count(stats().call_bodies_read);
      schedule([seen, status = std::move(status)] { seen(status); });
    });
    return;
  }
  const auto look = [this, shape, seen = std::move(seen)](absl::Status ready) {
    seen(ready.ok() ? tensor_over(std::move(lent_), tf::DT_UINT8, shape, &seen_)
                    : std::move(ready));
  };
  if (lent_.ready()) {
    schedule([look] { look(absl::OkStatus()); });
  } else {
    // The first view waits for the peer.
    tf::Env::Default()->SchedClosure(
        [this, look, given_up = std::move(given_up)] { look(lent_.wait_until_ready(given_up)); });
  }
}

std::string_view ArrivedCall::head() const {
  if (message().head_inside()) return std::string_view(inside_).substr(0, message_.head_bytes);
  return {static_cast<const char*>(seen_.data()), message_.head_bytes};
}

std::string_view ArrivedCall::body() const {
  const CallMessage sizes = message();
  if (sizes.all_inside()) return std::string_view(inside_).substr(message_.head_bytes);
  return {static_cast<const char*>(seen_.data()) + sizes.body_at(), message_.body_bytes};
}

bool ArrivedCall::parse(google::protobuf::Message* message) const {
  const std::string_view bytes = body();
  return bytes.size() <= INT32_MAX &&
         message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace farwrite::plugin
