// How a device meets its peers: connect and accept.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "core/inside.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/long_wait.h"
#include "core/mutex.h"
#include "core/status_wire.h"
#include "device/device_state.h"
#include "device/frame.h"

namespace farwrite::device {
namespace {

constexpr std::chrono::nanoseconds kRetryConnect = std::chrono::milliseconds(20);
// Between two looks for a name: each asks the name service.
constexpr std::chrono::nanoseconds kLongestNamePause = std::chrono::milliseconds(640);
// A process that ends takes connections for a moment and answers none of them. Others refuse in
// that way, so that there are few tries.
constexpr std::chrono::nanoseconds kLongestEnd = std::chrono::milliseconds(160);
constexpr std::chrono::nanoseconds kWorthTelling = std::chrono::milliseconds(100);

// Sleeps until `end`, or until this thread is to wait no more.
void sleep_until(core::Deadline end) {
  while (!end.expired() && !core::Interrupt::ends_wait()) {
    std::this_thread::sleep_for(std::min(end.remaining(), kRetryConnect));
  }
}

// Connects as soon as something listens at `peer`, whose host may get its name meanwhile. Says
// after a second what it waits for.
Result<core::UniqueFd> connect_once_it_listens(const Endpoint& peer, core::Deadline deadline) {
  const auto began = std::chrono::steady_clock::now();
  core::Deadline quiet = core::Deadline::after(core::kLongWait);
  std::chrono::nanoseconds pause = kRetryConnect;
  while (true) {
    auto socket = core::connect_tcp(peer, deadline.earlier(quiet));
    if (socket.ok()) return socket;
    StatusCode code = socket.status().code();
    const bool no_name = code == StatusCode::kNotFound;
    if (no_name) code = StatusCode::kUnavailable;
    const bool over = deadline.remaining() < kRetryConnect || core::Interrupt::ends_wait();
    const bool nothing_yet =
        code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded;
    if (!nothing_yet || over) {
      const auto tried = std::chrono::steady_clock::now() - began;
      const bool worth_telling = nothing_yet && tried >= kWorthTelling;
      return Status(code,
                    socket.status().message() +
                        (worth_telling ? " (tried for " + core::in_seconds(tried) + ")" : ""));
    }
    if (quiet.expired()) {
      quiet = core::Deadline::never();
      core::tell_long_wait("still trying, for ", deadline, socket.status().message());
    }
    // The next look may take its own time, and so begins before the deadline.
    const std::chrono::nanoseconds left = deadline.remaining() - kRetryConnect;
    sleep_until(core::Deadline::after(std::min(pause, left)));
    pause = no_name ? std::min(2 * pause, kLongestNamePause) : kRetryConnect;
  }
}

}  // namespace

Result<std::shared_ptr<ChannelState>> DeviceState::connect(const Endpoint& peer,
                                                           std::chrono::nanoseconds timeout) {
  const core::Deadline deadline = core::Deadline::after(timeout);
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("connect"));
  const core::Gate::Pass pass(gate_);
  FARWRITE_RETURN_IF_ERROR(usable("connect"));
  const core::Inside inside(this);  // close() waits for this call
  const core::Interrupt::Also closes(
      [](void* closing) { return static_cast<std::atomic<bool>*>(closing)->load() ? 1 : 0; },
      &closing_, kRetryConnect);
  auto channel = meet_at(peer, deadline);
  if (!channel.ok()) FARWRITE_RETURN_IF_ERROR(usable("connect"));
  return channel;
}

Result<std::shared_ptr<ChannelState>> DeviceState::meet_at(const Endpoint& peer,
                                                           core::Deadline deadline) {
  for (std::chrono::nanoseconds pause = kRetryConnect;; pause *= 2) {
    bool heard = true;
    auto met = meet_once_at(peer, deadline, heard);
    const bool lost = !heard && met.status().code() == StatusCode::kUnavailable;
    if (!lost || pause > kLongestEnd || deadline.remaining() < pause) return met;
    sleep_until(core::Deadline::after(pause));
    if (core::Interrupt::ends_wait()) return met;
  }
}

Result<std::shared_ptr<ChannelState>> DeviceState::meet_once_at(const Endpoint& peer,
                                                                core::Deadline deadline,
                                                                bool& heard) {
  auto socket = connect_once_it_listens(peer, deadline);
  if (!socket.ok()) return socket.status();
  const auto self =
      identity_at(core::connected_to_loopback(socket->get()), "connect to " + peer.to_string());
  if (!self.ok()) return self.status();
  auto channel = std::make_shared<ChannelState>(shared_from_this());
  FARWRITE_RETURN_IF_ERROR(channel->open());
  auto stream = make_control_stream(*std::move(socket), self.value(), /*connecting=*/true);
  if (!stream.ok()) return stream.status();
  auto handshake = introduce_connecting(
      **stream, self.value(), peer.to_string(),
      deadline.earlier(core::Deadline::after(options_.handshake_timeout)), channel.get(), &heard);
  if (!handshake.ok()) return handshake.status();
  const std::string peer_name = describe_peer(handshake->peer.name, peer.to_string());
  return go_live(std::move(channel), *std::move(handshake), peer_name, *std::move(stream));
}

Result<std::shared_ptr<ChannelState>> DeviceState::go_live(std::shared_ptr<ChannelState> channel,
                                                           HandshakeResult handshake,
                                                           const std::string& peer_name,
                                                           std::unique_ptr<core::ByteStream> stream,
                                                           Status refusal) {
  const std::string choice = peer_name + ": " + std::string(to_string(handshake.peer.fabric)) +
                             " (" + handshake.peer.fabric_reason + ")" +
                             (handshake.peer.encrypted ? ", encrypted" : "");
  core::set_keepalive(stream->fd(), options_.host_timeout);
  core::set_send_timeout(stream->fd(), options_.host_timeout);
  const Status started = channel->start(std::move(handshake), peer_name, std::move(stream));
  if (refusal.ok()) refusal = started;
  if (refusal.ok()) {
    const core::Lock lock(mutex_);
    if (!closing_) {
      channels_.push_back(channel);
      channels_opened_.add();
      if (std::find(choices_.begin(), choices_.end(), choice) == choices_.end()) {
        choices_.push_back(choice);
        core::log(core::LogLevel::kInfo, choice);
      }
      // A name may have been published since the channel began to serve lookups.
      loop_->post([channel] { channel->answer_parked_lookups(); });
      return channel;
    }
    refusal = Status::error(StatusCode::kFailedPrecondition, {"connect", peer_name},
                            "the device is closed", "open another one");
  }
  channel->give_up(refusal);
  (void)channel->finish(core::Deadline::never());  // it has no user yet, so nothing delays it
  return refusal;
}

Result<std::shared_ptr<ChannelState>> DeviceState::accept(std::chrono::nanoseconds timeout) {
  const core::Deadline deadline = core::Deadline::after(timeout);
  FARWRITE_RETURN_IF_ERROR(usable("accept"));
  return meetings_.accept(deadline, endpoint().to_string());
}

void DeviceState::on_incoming(core::UniqueFd socket) {
  core::set_no_delay(socket.get());
  const std::string origin = core::peer_host(socket.get());
  if (closing_.load()) return;
  auto self = identity_at(core::accepts_on_loopback(socket.get()), "accept");
  auto stream = self.ok() ? make_control_stream(std::move(socket), self.value(),
                                                /*connecting=*/false)
                          : Result<std::unique_ptr<core::ByteStream>>(self.status());
  if (!stream.ok()) {
    handshakes_refused_.add();
    core::log(core::LogLevel::kWarning, "a connection was dropped: " + stream.status().message());
    return;
  }
  const Status begun =
      meetings_.begin(origin, *stream, *std::move(self),
                      [device = shared_from_this()](Meeting& meeting) { device->meet(meeting); });
  if (!begun.ok()) turn_away(**stream, begun);
}

void DeviceState::turn_away(core::ByteStream& stream, const Status& reason) {
  handshakes_refused_.add();
  core::log(core::LogLevel::kWarning, "a connection was refused: " + reason.message());
  tell_why(stream, reason);
}

void DeviceState::tell_why(core::ByteStream& stream, const Status& reason) const {
  // An encrypting peer takes no plain word; it sees the connection end.
  if (identity_.encrypt) return;
  const std::vector<std::byte> bytes = core::status_to_bytes(reason);
  (void)send_frame(stream, ControlFrameType::kRefuse, {bytes.data(), bytes.size()},
                   core::Deadline::after(kTellWhy), "connect");
}

void DeviceState::meet(Meeting& meeting) {
  auto channel = std::make_shared<ChannelState>(shared_from_this());
  Status ready = meetings_.has_room(identity_.lanes);
  if (ready.ok()) ready = channel->open();
  if (ready.ok()) {
    shake_hands(meeting, std::move(channel));
  } else {
    turn_away(meeting.stream(), ready);
    (void)meetings_.take_stream(meeting);
    channel.reset();  // before the meeting ends, which close() waits for
  }
  meetings_.end(meeting);
}

void DeviceState::shake_hands(Meeting& meeting, std::shared_ptr<ChannelState> channel) {
  auto handshake =
      introduce_accepting(meeting.stream(), meeting.self(),
                          core::Deadline::after(options_.handshake_timeout), channel.get());
  Meetings::TakenStream taken = meetings_.take_stream(meeting);
  if (!handshake.ok()) {
    handshakes_refused_.add();
    if (!taken.cut) {
      core::log(core::LogLevel::kWarning,
                "a connection was refused: " + handshake.status().message());
    }
    return;
  }
  const PeerInfo& peer = handshake->peer;
  const std::string peer_name = describe_peer(peer.name, peer.endpoint.to_string());
  Status refusal;
  if (taken.cut) {
    refusal =
        Status::error(StatusCode::kUnavailable, {"accept", peer_name}, taken.why, "connect again");
  }
  auto live = go_live(std::move(channel), *std::move(handshake), peer_name, std::move(taken.stream),
                      std::move(refusal));
  if (live.ok()) meetings_.add(*std::move(live));
}

}  // namespace farwrite::device
