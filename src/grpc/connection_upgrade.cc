// How a connection moves from TCP to a stream; see upgrade_frame.h.
#include <cstdint>
#include <string>
#include <utility>

#include "core/mutex.h"
#include "core/sha256.h"
#include "grpc/connection.h"
#include "grpc/host.h"
#include "grpc/transport_counts.h"

namespace farwrite::grpc {
namespace {

ByteView view(const grpc_slice& slice) {
  return {reinterpret_cast<const std::byte*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

ByteView behind(ByteView bytes, std::size_t count) {
  return {bytes.data + count, bytes.size - count};
}

template <typename Value>
Value random_value() {
  Value value{};
  core::random_bytes({reinterpret_cast<std::byte*>(&value), sizeof(value)});
  return value;
}

}  // namespace

// --- The frames that pass.

void Connection::watch_incoming(const grpc_slice_buffer& slices) {
  for (std::size_t i = 0; i < slices.count && stage_ != Stage::kStays; ++i) {
    ByteView bytes = view(slices.slices[i]);
    while (bytes.size > 0 && stage_ != Stage::kStays && breach_.empty()) {
      if (reading_ == Transport::kStream) return breach("bytes follow the switch to Farwrite");
      Http2Watcher::Event event = Http2Watcher::Event::kNone;
      bytes = behind(bytes, incoming_.next(bytes, event));
      saw_incoming(event, bytes.size == 0 && i + 1 == slices.count);
    }
  }
}

void Connection::saw_incoming(Http2Watcher::Event event, bool last) {
  using Event = Http2Watcher::Event;
  switch (event) {
    case Event::kNone:
    case Event::kSettings:
      return;
    case Event::kNotHttp2:
      return stay("it does not begin as HTTP/2 does: TLS, or another protocol");
    case Event::kGoaway:
      if (stage_ != Stage::kUpgraded) stay("it was closing");
      return;
    case Event::kUpgrade:
      return take_frame(last);
    case Event::kSettingsAck:
    case Event::kFrame:
      break;
  }
  // A server with Farwrite answers in front of this; a client with Farwrite offers first.
  if (stage_ == Stage::kOffered && event == Event::kSettingsAck) {
    return stay("the server does not run Farwrite");
  }
  if (stage_ == Stage::kUndecided && incoming_.has_preface()) {
    stay("the client does not run Farwrite");
  }
}

void Connection::watch_outgoing(grpc_slice_buffer* slices) {
  grpc_slice_buffer passed;
  grpc_slice_buffer_init(&passed);
  const auto put_frames = [&]() FW_REQUIRES(mutex_) {
    grpc_slice_buffer_add(&passed,
                          grpc_slice_from_copied_buffer(own_frames_.data(), own_frames_.size()));
    own_frames_.clear();
  };
  if (!own_frames_.empty() && outgoing_.takes_frames()) put_frames();
  while (slices->count > 0) {
    grpc_slice rest = grpc_slice_buffer_take_first(slices);
    std::size_t seen = 0;
    while (seen < GRPC_SLICE_LENGTH(rest) && stage_ != Stage::kStays) {
      Http2Watcher::Event event = Http2Watcher::Event::kNone;
      seen += outgoing_.next(behind(view(rest), seen), event);
      saw_outgoing(event);
      if (own_frames_.empty() || !outgoing_.takes_frames()) continue;
      grpc_slice_buffer_add(&passed, grpc_slice_split_head(&rest, seen));
      put_frames();
      seen = 0;
      if (waits_for_upgrade()) {
        grpc_slice_buffer_undo_take_first(slices, rest);
        grpc_slice_buffer_swap(&own_write_, &passed);
        grpc_slice_buffer_destroy(&passed);
        return;
      }
    }
    grpc_slice_buffer_add(&passed, rest);
  }
  grpc_slice_buffer_swap(slices, &passed);
  grpc_slice_buffer_destroy(&passed);
}

void Connection::saw_outgoing(Http2Watcher::Event event) {
  using Event = Http2Watcher::Event;
  if (event == Event::kNotHttp2) {
    return stay("it does not begin as HTTP/2 does: TLS, or another protocol");
  }
  if (event == Event::kGoaway) return stay("it was closing");
  if (event != Event::kSettings || !outgoing_.has_preface() || stage_ != Stage::kUndecided) return;
  Result<Hub*> hub = Hub::get();
  if (!hub.ok()) return stay(hub.status().message());
  upgrade_.client_nonce = random_value<Nonce>();
  stage_ = Stage::kOffered;
  own_frames_ += frame(UpgradeKind::kHello).encode();
}

void Connection::take_frame(bool last) {
  const Result<UpgradeFrame> taken = UpgradeFrame::decode(incoming_.payload());
  if (!taken.ok()) {
    if (taken.status().code() == StatusCode::kVersionMismatch)
      return stay(taken.status().message());
    return breach(taken.status().message());
  }
  const UpgradeFrame& frame = taken.value();
  const bool hello = frame.kind == UpgradeKind::kHello;
  if (!hello && frame.client_nonce != upgrade_.client_nonce) {
    return breach("an upgrade frame is of another connection");
  }
  if (!hello && frame.kind != UpgradeKind::kAnswer && frame.server_nonce != upgrade_.server_nonce) {
    return breach("an upgrade frame is of another connection");
  }
  if (hello && stage_ == Stage::kUndecided && incoming_.has_preface()) return take_hello(frame);
  if (frame.kind == UpgradeKind::kAnswer && stage_ == Stage::kOffered) return take_answer(frame);
  if (frame.kind == UpgradeKind::kReady && stage_ == Stage::kAnswered) return take_ready(frame);
  const bool switches = stage_ == Stage::kReady || stage_ == Stage::kSwitching;
  if (frame.kind == UpgradeKind::kSwitch && switches) return take_switch(last);
  breach("an upgrade frame comes out of turn");
}

void Connection::take_hello(const UpgradeFrame& frame) {
  Result<Hub*> hub = Hub::get();
  if (!hub.ok()) return stay(hub.status().message());
  const std::string refused = refusal(frame, *hub.value());
  if (!refused.empty()) return stay(refused);
  upgrade_.client_nonce = frame.client_nonce;
  upgrade_.server_nonce = random_value<Nonce>();
  peer_device_ = frame.device;
  stage_ = Stage::kAnswered;
  own_frames_ += this->frame(UpgradeKind::kAnswer).encode();
}

void Connection::take_answer(const UpgradeFrame& frame) {
  Hub* const hub = Hub::existing();
  if (hub == nullptr) return stay("this process was forked from the one that connected");
  const std::string refused = refusal(frame, *hub);
  if (!refused.empty()) return stay(refused);
  const Result<Endpoint> endpoint = Endpoint::parse(frame.endpoint);
  if (!endpoint.ok()) return breach("the server's device has no valid address");
  upgrade_.server_nonce = frame.server_nonce;
  upgrade_.stream = random_value<std::uint64_t>();
  peer_device_ = frame.device;
  stage_ = Stage::kConnecting;
  known_ = hub->connected(peer_device_);
  if (known_ != nullptr) return;
  hub->connect(endpoint.value(), peer_device_,
               [self = shared_from_this()](const Result<std::shared_ptr<Pair>>& pair) {
                 self->has_pair(pair);
               });
}

void Connection::take_ready(const UpgradeFrame& frame) {
  Hub* const hub = Hub::existing();
  if (hub == nullptr) return stay("this process was forked from the one that accepted");
  upgrade_.stream = frame.stream;
  stage_ = Stage::kOpening;
  known_ = hub->accepted(peer_device_);
  if (known_ != nullptr) return;
  // If the connection ends before the channel comes, nothing waits for it.
  hub->await(peer_device_, weak_from_this(),
             [weak = weak_from_this()](const Result<std::shared_ptr<Pair>>& pair) {
               if (const std::shared_ptr<Connection> self = weak.lock()) self->has_pair(pair);
             });
}

void Connection::take_switch(bool last) {
  if (!last) return breach("bytes follow the switch to Farwrite");
  reading_ = Transport::kStream;
  if (stage_ == Stage::kReady) switch_due_ = true;
  stage_ = Stage::kUpgraded;
  TransportCounts::get().upgraded();
}

void Connection::stay(const std::string& reason) {
  if (stage_ == Stage::kStays || writing_ == Transport::kStream || reading_ == Transport::kStream)
    return;
  stage_ = Stage::kStays;
  own_frames_.clear();
  switch_due_ = false;
  TransportCounts::get().stayed(reason);
  if (Settings::is_required()) {
    breach_ = "Farwrite is required, and this connection cannot use it: " + reason;
  }
}

void Connection::breach(const std::string& what) { breach_ = "the upgrade to Farwrite: " + what; }

// --- The upgrade.

UpgradeFrame Connection::frame(UpgradeKind kind) const {
  UpgradeFrame frame = upgrade_;
  frame.kind = kind;
  Hub* const hub = Hub::existing();
  if (hub == nullptr || kind == UpgradeKind::kReady || kind == UpgradeKind::kSwitch) return frame;
  frame.local = addresses_.local;
  frame.remote = addresses_.remote;
  frame.host = host_identity();
  frame.device = hub->device().uuid();
  if (kind == UpgradeKind::kAnswer) frame.endpoint = hub->device().endpoint().to_string();
  return frame;
}

std::string Connection::refusal(const UpgradeFrame& peer, Hub& hub) {
  const bool mirrored = !addresses_.local.empty() && peer.local == addresses_.remote &&
                        peer.remote == addresses_.local;
  const bool one_host = peer.host == host_identity();
  needs_mapping_ = !mirrored;
  if (!mirrored && !one_host) return "a proxy or an address translation is in between";
  if (!one_host && !hub.settings().other_hosts) {
    return "the peer is on another host: set FARWRITE_GRPC_LISTEN to an address of this host that "
           "it reaches";
  }
  return {};
}

void Connection::has_pair(const Result<std::shared_ptr<Pair>>& pair) {
  bool needs_mapping = false;
  std::uint64_t number = 0;
  {
    const core::Lock lock(mutex_);
    needs_mapping = needs_mapping_;
    number = upgrade_.stream;
  }
  std::string refused;
  std::shared_ptr<void> watch;
  stream::Stream stream;
  if (!pair.ok()) {
    refused = pair.status().message();
  } else if (needs_mapping && !pair.value()->maps_peer_memory()) {
    refused = "the two ends of the socket do not see the same addresses, and share no memory";
  } else {
    Result<stream::Stream> opened = pair.value()->streams().open(number);
    if (opened.ok()) {
      stream = *std::move(opened);
      watch = below_->watch(pair.value());
      if (watch == nullptr) refused = "no descriptor is left; raise the limit (ulimit -n)";
    } else {
      refused = opened.status().message();
    }
  }
  std::string breach;
  {
    const core::Lock lock(mutex_);
    if (!over_.ok() || destroyed_ || stage_ == Stage::kStays) return;
    if (!refused.empty()) {
      stay(refused);
      breach = breach_;
    } else {
      pair_ = pair.value();
      watch_ = std::move(watch);
      stream_ = std::move(stream);
      if (stage_ == Stage::kConnecting) {
        stage_ = Stage::kReady;
        own_frames_ += frame(UpgradeKind::kReady).encode();
      } else {
        stage_ = Stage::kSwitching;
        switch_due_ = true;
      }
    }
  }
  if (!breach.empty()) return fail(below_->unavailable(breach));
  write_own_frames();
}

// Where Farwrite is required, a client's calls do not begin on TCP.
bool Connection::waits_for_upgrade() const {
  const bool offers = stage_ == Stage::kOffered || stage_ == Stage::kConnecting ||
                      stage_ == Stage::kReady || (stage_ == Stage::kUpgraded && switch_due_);
  return offers && outgoing_.has_preface() && Settings::is_required();
}

}  // namespace farwrite::grpc
