#include "device/handshake.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/interrupt.h"
#include "core/status_wire.h"
#include "core/tcp_socket.h"
#include "core/tls_stream.h"
#include "core/wire.h"
#include "device/frame.h"
#include "device/hello.h"

namespace farwrite::device {
namespace {

constexpr std::string_view kConnect = "connect";

ByteView view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }
ByteView view(const core::Digest& digest) { return {digest.data(), digest.size()}; }

// Refuses a frame that is not of `type`. A REFUSE becomes the peer's own error.
Result<Frame> check_type(Result<Frame> frame, ControlFrameType type, const std::string& peer_name) {
  if (!frame.ok()) return frame.status();
  if (frame->type == type) return frame;
  if (frame->type == ControlFrameType::kRefuse) {
    Status refusal;
    FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(view(frame->body), refusal));
    return Status(refusal.ok() ? StatusCode::kProtocolError : refusal.code(),
                  "connect to " + peer_name + ": refused by the peer: " + refusal.message());
  }
  return Status::error(StatusCode::kProtocolError, {kConnect, peer_name},
                       "an unexpected message in the handshake", core::kBrokenRule);
}

// The next frame, which must be of `type`.
Result<Frame> expect(core::ByteStream& stream, ControlFrameType type, core::Deadline deadline,
                     const std::string& peer_name) {
  return check_type(receive_frame(stream, deadline, "connect to " + peer_name), type, peer_name);
}

bool is_silence(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

// The first answer of what listens at `address`, which may be any program.
Result<Frame> first_frame(core::ByteStream& stream, core::Deadline deadline,
                          const std::string& address) {
  auto frame = receive_frame(stream, deadline, "connect to " + address);
  const bool strange = frame.ok() ? frame->type != ControlFrameType::kHelloReply &&
                                        frame->type != ControlFrameType::kRefuse
                                  : frame.status().code() == StatusCode::kProtocolError;
  if (is_silence(frame.status())) {
    return Status(frame.status().code(),
                  frame.status().message() + "; it may be another program that holds that port");
  }
  if (!strange) return frame;
  return Status::error(StatusCode::kProtocolError, {kConnect, address},
                       "what listens there does not answer as a Farwrite device",
                       "check the address and the port; another program seems to hold that port");
}

// Tells the peer why before giving up, as far as it still listens; `reason` comes back.
Status refuse(core::ByteStream& stream, core::Deadline deadline, const Status& reason) {
  // The error that counts is `reason`; a peer that is gone does not need it.
  (void)send_frame(stream, ControlFrameType::kRefuse, view(core::status_to_bytes(reason)), deadline,
                   kConnect);
  return reason;
}

std::string token_of(std::string_view side, const Hello& hello) {
  std::string text = "the " + std::string(side) + " side ";
  if (!hello.has_token) return text + "has none (its token option is none)";
  if (hello.token_origin.empty()) return text + "has a token from an unknown source";
  return text + "takes its token from " + hello.token_origin;
}

// The same words on both sides.
Status token_mismatch(const std::string& peer_name, const Hello& connecting,
                      const Hello& accepting) {
  const std::string cause = "the tokens differ: " + token_of("connecting", connecting) + ", " +
                            token_of("accepting", accepting);
  const bool same_file = connecting.token_origin == accepting.token_origin &&
                         connecting.token_origin.starts_with("the file ");
  const std::string_view remedy =
      same_file ? "if the file was replaced, reopen the device that opened before; if the sides "
                  "run in two containers, set FARWRITE_TOKEN_FILE to a file that both can read"
                : "let both read one file (FARWRITE_TOKEN_FILE), or give both the same token";
  return Status::error(StatusCode::kUnauthenticated, {kConnect, peer_name}, cause, remedy);
}

PeerInfo describe(const Hello& peer, const Hello& self, bool encrypted) {
  PeerInfo info;
  info.endpoint = peer.endpoint;
  info.name = peer.name;
  info.service = peer.service;
  info.uuid = peer.uuid;
  info.epoch = peer.epoch;
  info.lanes = std::min(peer.lanes, self.lanes);
  info.encrypted = encrypted;
  return info;
}

fabric::Fabric* find_fabric(const LocalIdentity& self, FabricKind kind) {
  for (fabric::Fabric* fabric : self.fabrics) {
    if (fabric->kind() == kind) return fabric;
  }
  return nullptr;
}

std::string join(const std::vector<FabricKind>& kinds) {
  std::string text;
  for (const FabricKind kind : kinds) {
    if (!text.empty()) text += ", ";
    text += to_string(kind);
  }
  return text.empty() ? "none" : text;
}

// Why the fabrics failed that were tried.
struct Failures {
  std::string text;
  bool exhausted = false;  // something was used up, so that the same may succeed later

  void add(const std::string& failure, const Status& ours, const Status& theirs) {
    if (!text.empty()) text += "; ";
    text += failure;
    for (const Status* status : {&ours, &theirs}) {
      exhausted = exhausted || status->code() == StatusCode::kResourceExhausted;
    }
  }
};

Status no_fabric_left(const std::string& peer_name, const Hello& connecting, const Hello& accepting,
                      const Failures& failures) {
  const std::string cause = failures.text.empty()
                                ? "no fabric in common: the connecting side has " +
                                      join(connecting.fabrics) + ", the accepting side " +
                                      join(accepting.fabrics)
                                : "every fabric failed: " + failures.text;
  const StatusCode code =
      failures.exhausted ? StatusCode::kResourceExhausted : StatusCode::kUnavailable;
  return Status::error(code, {kConnect, peer_name}, cause,
                       "allow one that works on both sides with `fabrics` or FARWRITE_FABRICS;"
                       " `farwrite info` shows what this host can use");
}

// Why a fabric was taken; both sides read it. `connecting`, `accepting`: that side allows no other.
std::string_view choice(bool connecting, bool accepting) {
  if (connecting && accepting) return "the only fabric allowed, by both sides";
  if (connecting) return "the only fabric allowed, by the connecting side";
  if (accepting) return "the only fabric allowed, by the accepting side";
  return "the first fabric in common that worked";
}

fabric::AttachRequest attach_request(const Transcript& transcript, const PeerInfo& peer,
                                     const std::string& peer_name, core::Deadline deadline,
                                     fabric::LinkObserver* observer) {
  fabric::AttachRequest request;
  request.encrypt = peer.encrypted;
  request.secret = transcript.secret;
  request.peer_name = peer_name;
  request.lanes = peer.lanes + 1;  // and the return lane
  request.deadline = deadline;
  request.observer = observer;
  return request;
}

// Agrees on encryption, if the stream does. An error is in the words of a device.
Status establish(core::ByteStream& stream, core::Deadline deadline, const std::string& peer_name,
                 const LocalIdentity& self, bool connecting) {
  Status established = stream.establish(deadline, "connect to " + peer_name);
  if (established.code() != StatusCode::kUnauthenticated) return established;
  const Hello ours = Hello::of(self);
  Hello theirs;
  theirs.has_token = true;
  return connecting ? token_mismatch(peer_name, ours, theirs)
                    : token_mismatch(peer_name, theirs, ours);
}

// Tells a peer that does not encrypt, in a plain frame, why we give up.
void refuse_plain(int socket, core::Deadline deadline) {
  core::PlainView plain(socket);
  (void)refuse(plain, deadline,
               Status::error(StatusCode::kFailedPrecondition, {kConnect},
                             "the accepting side encrypts and the connecting side does not",
                             "set encrypt on both sides, or on neither"));
}

// Tells a peer that encrypts, in its words, that we do not.
void refuse_encrypted(core::ByteStream& stream, core::Deadline deadline) {
  // A fatal alert of TLS: "insufficient security".
  constexpr std::array<std::uint8_t, 7> kAlert = {21, 3, 3, 0, 2, 2, 71};
  (void)core::send_all(stream, {kAlert.data(), kAlert.size()}, deadline, kConnect);
  // What is left unread would make the kernel reset the connection, perhaps before this is read.
  std::array<std::byte, 4096> rest;
  const iovec piece{rest.data(), rest.size()};
  for (int turn = 0; turn < 16; ++turn) {
    if (stream.receive(&piece, 1).state != core::ByteStream::State::kMoved) return;
  }
}

// The accepting side's own reason says more than that its peer gave up.
std::string failure_of(FabricKind kind, const Status& ours, const Status& theirs) {
  const bool own = !ours.ok() && (theirs.ok() || ours.code() != StatusCode::kUnavailable);
  return (own ? "the accepting side's " : "") + std::string(to_string(kind)) + ": " +
         (own ? ours : theirs).message();
}

// The connecting side's turns at attaching, until it is welcomed.
Status attach_until_welcome(core::ByteStream& stream, const LocalIdentity& self,
                            const Transcript& transcript, const std::string& peer_name,
                            core::Deadline deadline, fabric::LinkObserver* observer,
                            HandshakeResult& handshake) {
  while (true) {
    auto next = receive_frame(stream, deadline, "connect to " + peer_name);
    if (!next.ok()) return next.status();
    if (next->type == ControlFrameType::kWelcome && handshake.link != nullptr) {
      handshake.peer.fabric_reason.assign(reinterpret_cast<const char*>(next->body.data()),
                                          next->body.size());
      return Status();
    }
    if (next->type == ControlFrameType::kRefuse) {
      Status refusal;
      FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(view(next->body), refusal));
      return Status(refusal.ok() ? StatusCode::kProtocolError : refusal.code(),
                    "connect to " + peer_name + ": refused by the peer: " + refusal.message());
    }
    auto attempt = next->type == ControlFrameType::kTryFabric
                       ? TryFabric::from_bytes(view(next->body))
                       : Result<TryFabric>(Status::error(
                             StatusCode::kProtocolError, {kConnect, peer_name},
                             "an unexpected message in the handshake", core::kBrokenRule));
    if (!attempt.ok()) return attempt.status();
    handshake.link.reset();
    handshake.peer.fabric = attempt->kind;
    fabric::Fabric* fabric = find_fabric(self, attempt->kind);
    Status result = Status::error(StatusCode::kUnavailable, {kConnect, peer_name},
                                  "the peer requested a fabric that this side did not offer",
                                  "run the same Farwrite release on both sides");
    if (fabric != nullptr) {
      auto request = attach_request(transcript, handshake.peer, peer_name, deadline, observer);
      request.connecting = true;
      request.abandoned = [] { return core::Interrupt::ends_wait(); };
      request.peer_address = attempt->address;
      request.peer_host = core::peer_host(stream.fd());
      auto link = fabric->attach(request);
      result = link.ok() ? Status() : link.status();
      if (link.ok()) handshake.link = *std::move(link);
    }
    FARWRITE_RETURN_IF_ERROR(send_frame(stream, ControlFrameType::kFabricResult,
                                        view(core::status_to_bytes(result)), deadline, kConnect));
    auto theirs = expect(stream, ControlFrameType::kFabricResult, deadline, peer_name);
    if (!theirs.ok()) return theirs.status();
    Status their_result;
    FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(view(theirs->body), their_result));
    if (!their_result.ok()) handshake.link.reset();
  }
}

}  // namespace

std::string describe_peer(const std::string& name, const std::string& endpoint) {
  return name.empty() ? endpoint : name + " (" + endpoint + ")";
}

Result<std::unique_ptr<core::ByteStream>> make_control_stream(core::UniqueFd socket,
                                                              const LocalIdentity& self,
                                                              bool connecting) {
  if (!self.encrypt) return core::make_plain_stream(std::move(socket));
  const core::Digest key =
      core::tls_key({self.token.data(), self.token.size()}, "farwrite tls control");
  return core::TlsStream::create(
      std::move(socket), key, connecting ? core::TlsSide::kConnecting : core::TlsSide::kAccepting);
}

Result<HandshakeResult> introduce_connecting(core::ByteStream& stream, const LocalIdentity& self,
                                             const std::string& address, core::Deadline deadline,
                                             fabric::LinkObserver* observer, bool* heard) {
  if (heard != nullptr) *heard = false;
  FARWRITE_RETURN_IF_ERROR(establish(stream, deadline, address, self, /*connecting=*/true));
  const Hello hello = Hello::of(self);
  const Status sent =
      send_frame(stream, ControlFrameType::kHello, view(hello.to_bytes()), deadline, kConnect);
  // A peer that closed at once may have said why.
  auto first = first_frame(stream, deadline, address);
  if (heard != nullptr) *heard = !is_silence(first.status());
  auto frame = check_type(std::move(first), ControlFrameType::kHelloReply, address);
  if (!frame.ok()) return frame.status();
  FARWRITE_RETURN_IF_ERROR(sent);
  auto reply = HelloReply::from_bytes(view(frame->body));
  if (!reply.ok()) return reply.status();
  const std::string peer_name = describe_peer(reply->hello.name, address);
  if (reply->version < self.versions.min || reply->version > self.versions.max) {
    auto none = choose_version(self.versions, reply->hello.versions);
    return refuse(stream, deadline,
                  none.ok() ? Status::error(StatusCode::kProtocolError, {kConnect, peer_name},
                                            "the peer chose a version that this side did not offer",
                                            "run the same Farwrite release on both sides")
                            : none.status());
  }
  const Transcript transcript(hello, reply->hello, self.token);
  if (hello.has_token != reply->hello.has_token ||
      !core::constant_time_equal(view(reply->proof), view(transcript.accepting_proof))) {
    return refuse(stream, deadline, token_mismatch(peer_name, hello, reply->hello));
  }
  FARWRITE_RETURN_IF_ERROR(send_frame(stream, ControlFrameType::kProof,
                                      view(transcript.connecting_proof), deadline, kConnect));

  HandshakeResult handshake;
  handshake.wire_version = reply->version;
  handshake.peer = describe(reply->hello, hello, self.encrypt);
  const Status attached =
      attach_until_welcome(stream, self, transcript, peer_name, deadline, observer, handshake);
  if (attached.ok()) return handshake;
  // The peer may have welcomed us meanwhile. It need not keep a channel for a side that has none.
  handshake.link.reset();
  const core::Deadline soon = core::Deadline::after(kTellWhy);
  (void)refuse(stream, soon, attached);
  (void)send_frame(stream, ControlFrameType::kFin, {}, soon, kConnect);
  return attached;
}

Result<HandshakeResult> introduce_accepting(core::ByteStream& stream, const LocalIdentity& self,
                                            core::Deadline deadline,
                                            fabric::LinkObserver* observer) {
  const Status established =
      establish(stream, deadline, "the connecting peer", self, /*connecting=*/false);
  if (established.code() == StatusCode::kFailedPrecondition) refuse_plain(stream.fd(), deadline);
  if (!established.ok()) return established;
  auto frame = expect(stream, ControlFrameType::kHello, deadline, "the connecting peer");
  if (!frame.ok()) {
    const bool encrypts = frame.status().code() == StatusCode::kFailedPrecondition;
    if (encrypts && !self.encrypt) refuse_encrypted(stream, deadline);
    return frame.status();
  }
  auto theirs = Hello::from_bytes(view(frame->body));
  if (!theirs.ok()) return refuse(stream, deadline, theirs.status());
  const std::string peer_name = describe_peer(theirs->name, theirs->endpoint.to_string());
  auto version = choose_version(self.versions, theirs->versions);
  if (!version.ok()) return refuse(stream, deadline, version.status());

  HelloReply reply;
  reply.hello = Hello::of(self);
  reply.version = *version;
  if (reply.hello.has_token != theirs->has_token) {
    return refuse(stream, deadline, token_mismatch(peer_name, *theirs, reply.hello));
  }
  const Transcript transcript(*theirs, reply.hello, self.token);
  reply.proof = transcript.accepting_proof;
  FARWRITE_RETURN_IF_ERROR(send_frame(stream, ControlFrameType::kHelloReply, view(reply.to_bytes()),
                                      deadline, kConnect));
  auto proof = expect(stream, ControlFrameType::kProof, deadline, peer_name);
  if (!proof.ok()) return proof.status();
  if (!core::constant_time_equal(view(proof->body), view(transcript.connecting_proof))) {
    return refuse(stream, deadline, token_mismatch(peer_name, *theirs, reply.hello));
  }

  HandshakeResult handshake;
  handshake.wire_version = *version;
  handshake.peer = describe(*theirs, reply.hello, self.encrypt);
  Failures failures;
  for (const FabricKind kind : theirs->fabrics) {
    fabric::Fabric* fabric = find_fabric(self, kind);
    if (fabric == nullptr) continue;
    handshake.peer.fabric = kind;
    if (const Status listening = fabric->make_reachable(); !listening.ok()) {
      failures.add(failure_of(kind, listening, Status()), listening, Status());
      continue;
    }
    const TryFabric attempt{kind, fabric->address()};
    auto request = attach_request(transcript, handshake.peer, peer_name, deadline, observer);
    FARWRITE_RETURN_IF_ERROR(send_frame(stream, ControlFrameType::kTryFabric,
                                        view(attempt.to_bytes()), deadline, kConnect));
    // The peer speaks next only when it is done attaching; if that is before we are, it failed.
    request.abandoned = [&stream] { return stream.has_unread() || core::has_input(stream.fd()); };
    auto link = fabric->attach(request);
    auto result = expect(stream, ControlFrameType::kFabricResult, deadline, peer_name);
    if (!result.ok()) return result.status();
    Status their_result;
    FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(view(result->body), their_result));
    const Status our_result = link.ok() ? Status() : link.status();
    FARWRITE_RETURN_IF_ERROR(send_frame(stream, ControlFrameType::kFabricResult,
                                        view(core::status_to_bytes(our_result)), deadline,
                                        kConnect));
    if (our_result.ok() && their_result.ok()) {
      std::string reason(choice(theirs->fabrics.size() == 1, self.fabrics.size() == 1));
      if (!failures.text.empty()) reason += " (" + failures.text + ")";
      FARWRITE_RETURN_IF_ERROR(send_frame(stream, ControlFrameType::kWelcome,
                                          {reason.data(), reason.size()}, deadline, kConnect));
      handshake.peer.fabric_reason = std::move(reason);
      handshake.link = *std::move(link);
      return handshake;
    }
    failures.add(failure_of(kind, our_result, their_result), our_result, their_result);
  }
  return refuse(stream, deadline, no_fabric_left(peer_name, *theirs, reply.hello, failures));
}

}  // namespace farwrite::device
