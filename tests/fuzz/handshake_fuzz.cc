// Either side of the whole handshake, against a peer that says anything.
//
// The input is the peer's stream. It cannot know the secret token, so a proof of 32 zero bytes in
// it is replaced by the right one: without that nothing behind the proof would ever be reached.
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/status_wire.h"
#include "core/unique_fd.h"
#include "device/frame.h"
#include "device/handshake.h"
#include "device/hello.h"
#include "peer_fabric.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using device::ControlFrameType;
using device::Hello;
using device::HelloReply;
using device::Transcript;

enum Option : std::uint8_t { kConnecting = 1, kToken = 2, kFirstFabricFails = 4 };

// Puts right proofs in. `any` tells whether there was one.
class Prover {
 public:
  explicit Prover(const device::LocalIdentity& self) : token_(self.token), ours_(Hello::of(self)) {}

  Bytes proven(ByteView stream, bool connecting) {
    Bytes all(stream.data, stream.data + stream.size);
    std::size_t at = 0;
    while (all.size() - at >= device::kFrameHeaderBytes) {
      Script header({all.data() + at, device::kFrameHeaderBytes});
      const std::size_t length = header.u32();
      const auto type = static_cast<ControlFrameType>(header.u16());
      at += device::kFrameHeaderBytes;
      if (length > all.size() - at) break;
      MutableByteView body(all.data() + at, length);
      connecting ? prove_reply(type, body) : prove_hello(type, body);
      at += length;
    }
    return all;
  }
  bool any() const { return any_; }

 private:
  void prove_hello(ControlFrameType type, MutableByteView body) {
    if (type == ControlFrameType::kHello && proof_.empty()) {
      auto theirs = Hello::from_bytes(body);
      if (theirs.ok()) keep(Transcript(*theirs, ours_, token_).connecting_proof);
    }
    if (type == ControlFrameType::kProof && body.size == core::Digest().size()) fill(body);
  }

  void prove_reply(ControlFrameType type, MutableByteView body) {
    constexpr std::size_t kVersionBytes = 2;
    if (type != ControlFrameType::kHelloReply) return;
    auto reply = HelloReply::from_bytes(body);
    if (!reply.ok()) return;
    keep(Transcript(ours_, reply->hello, token_).accepting_proof);
    fill({body.data + kVersionBytes, core::Digest().size()});
  }

  void keep(const core::Digest& proof) { proof_.assign(proof.begin(), proof.end()); }

  void fill(MutableByteView place) {
    const bool asked = std::all_of(place.data, place.data + place.size,
                                   [](std::byte each) { return each == std::byte{0}; });
    if (!asked || proof_.empty()) return;
    std::copy(proof_.begin(), proof_.end(), place.data);
    any_ = true;
  }

  const std::string token_;
  const Hello ours_;
  Bytes proof_;
  bool any_ = false;
};

void run(ByteView input) {
  Script script(input);
  const std::uint8_t options = script.u8();
  const bool connecting = (options & kConnecting) != 0;
  PeerFabric shm(FabricKind::kShm, (options & kFirstFabricFails) == 0);
  PeerFabric tcp(FabricKind::kTcp, true);
  device::LocalIdentity self;
  self.endpoint = {"127.0.0.1", 1};
  self.lanes = 4;
  if ((options & kToken) != 0) self.token = "secret";
  self.fabrics = {&shm, &tcp};
  Prover prover(self);
  const Bytes stream = prover.proven(script.rest(), connecting);

  int pair[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
          "the test has a socket pair");
  const core::UniqueFd near(pair[0]);
  const core::UniqueFd far(pair[1]);
  // All at once, then the end: so nothing ever waits. What the socket does not take is cut off.
  (void)::send(far.get(), stream.data(), stream.size(), MSG_NOSIGNAL);
  (void)::shutdown(far.get(), SHUT_WR);
  NoObserver observer;
  const core::Deadline deadline = core::Deadline::after(std::chrono::seconds(20));
  core::PlainView side(near.get());
  {
    auto met = connecting ? introduce_connecting(side, self, "the peer", deadline, &observer)
                          : introduce_accepting(side, self, deadline, &observer);
    const int attached = shm.attached + tcp.attached;
    require(prover.any() || attached == 0, "no fabric is attached before the token is proven");
    if (!met.ok()) {
      require(!met.status().message().empty(), "a refusal says why");
      const bool said_by_peer =
          met.status().message().find("refused by the peer") != std::string::npos;
      require(said_by_peer || met.status().code() != StatusCode::kInternal,
              "bad bytes are no bug of ours");
      require(said_by_peer || met.status().code() != StatusCode::kDeadlineExceeded,
              "an ended stream ends the wait");
      require(shm.alive + tcp.alive == 0, "a failed handshake leaves no link");
      return;
    }
    require(met->link != nullptr && attached > 0, "a handshake leaves a link");
    require(shm.alive + tcp.alive == 1, "and only one");
    require(met->wire_version == self.versions.max, "we speak the version chosen");
    require(met->peer.lanes >= 1 && met->peer.lanes <= self.lanes, "no more lanes than ours");
    require(met->peer.fabric_reason.size() <= device::kMaxFrameBytes, "a reason is bounded");
  }
  require(shm.alive + tcp.alive == 0, "links go with their introduction");
}

Hello peer_hello(bool token) {
  Hello hello;
  hello.endpoint = {"127.0.0.1", 2};
  hello.uuid[0] = 2;
  hello.epoch = 5;
  hello.has_token = token;
  hello.lanes = 2;
  hello.fabrics = {FabricKind::kShm, FabricKind::kTcp};
  return hello;
}

Bytes frame(ControlFrameType type, const Bytes& body) { return encode_frame(type, view_of(body)); }

Bytes result(const Status& status) {
  return frame(ControlFrameType::kFabricResult, core::status_to_bytes(status));
}

Bytes seed(std::uint8_t options, std::initializer_list<Bytes> frames) {
  return concatenated({{static_cast<std::byte>(options)}, concatenated(frames)});
}

Seeds seeds() {
  const Bytes proof = frame(ControlFrameType::kProof, Bytes(core::Digest().size()));
  const Bytes hello = frame(ControlFrameType::kHello, peer_hello(false).to_bytes());
  const Bytes hello_token = frame(ControlFrameType::kHello, peer_hello(true).to_bytes());
  const Status away(StatusCode::kUnavailable, "another host");
  HelloReply reply;
  reply.version = 2;
  reply.hello = peer_hello(false);
  const Bytes reply_plain = frame(ControlFrameType::kHelloReply, reply.to_bytes());
  reply.hello.has_token = true;
  const Bytes reply_token = frame(ControlFrameType::kHelloReply, reply.to_bytes());
  const auto attempt = [](FabricKind kind) {
    return frame(ControlFrameType::kTryFabric, device::TryFabric{kind, "there"}.to_bytes());
  };
  const Bytes welcome = frame(ControlFrameType::kWelcome, Bytes(4, std::byte{'w'}));
  const Bytes refuse = frame(ControlFrameType::kRefuse, core::status_to_bytes(away));
  return {
      {"accept", seed(0, {hello, proof, result({})})},
      {"accept-token", seed(kToken, {hello_token, proof, result({})})},
      {"accept-wrong-token",
       seed(kToken, {hello_token, frame(ControlFrameType::kProof, Bytes(32, std::byte{1}))})},
      {"accept-second-fabric", seed(kFirstFabricFails, {hello, proof, result(away), result({})})},
      {"accept-peer-fails", seed(0, {hello, proof, result(away), result(away)})},
      {"accept-refused", seed(0, {hello, refuse})},
      {"connect", seed(kConnecting, {reply_plain, attempt(FabricKind::kShm), result({}), welcome})},
      {"connect-token",
       seed(kConnecting | kToken, {reply_token, attempt(FabricKind::kShm), result({}), welcome})},
      {"connect-second-fabric",
       seed(kConnecting, {reply_plain, attempt(FabricKind::kShm), result(away),
                          attempt(FabricKind::kTcp), result({}), welcome})},
      {"connect-unknown-fabric",
       seed(kConnecting, {reply_plain, attempt(FabricKind::kVerbs), result(away), refuse})},
      {"connect-refused", seed(kConnecting, {refuse})},
  };
}

[[maybe_unused]] const bool kAdded = add_target({"handshake", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
