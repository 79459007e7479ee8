// The packets by which two processes on one host set an shm link up, with any descriptors.
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/wire.h"
#include "fabric/shm/attach.h"
#include "peer_files.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using fabric::AttachRequest;
using fabric::shm::Attachment;
using fabric::shm::AttachOffer;
using fabric::shm::MailboxGeometry;
using fabric::shm::Packet;

constexpr std::uint32_t kLanes = 2;
constexpr std::uint32_t kMagic = 0x4d485346;

struct Pair {
  Pair() {
    int pair[2];
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
            "the test has a socket pair");
    near.reset(pair[0]);
    far.reset(pair[1]);
  }
  core::UniqueFd near, far;
};

// {u8 descriptors, their kinds, u16 length, bytes}
Packet take_packet(Script& script) {
  Packet packet;
  std::vector<std::uint8_t> kinds(script.u8() % 6);
  for (std::uint8_t& kind : kinds) kind = script.u8();
  packet.fds = open_peer_files(kinds);
  const ByteView bytes = script.bytes(script.u16());
  packet.bytes.assign(bytes.data, bytes.data + bytes.size);
  return packet;
}

void send(const core::UniqueFd& socket, const Packet& packet) {
  std::vector<int> fds;
  for (const core::UniqueFd& fd : packet.fds) fds.push_back(fd.get());
  // Past the longest packet it is cut by the receiver; past the socket's buffer it is not sent.
  (void)fabric::shm::send_packet(socket.get(), view_of(packet.bytes), fds,
                                 core::Deadline::after({}), "fuzz");
}

void check(Result<Attachment> attachment) {
  if (!attachment.ok()) {
    const StatusCode code = attachment.status().code();
    require(!attachment.status().message().empty(), "a refusal says why");
    require(code == StatusCode::kProtocolError || code == StatusCode::kUnavailable ||
                code == StatusCode::kPermissionDenied,
            "bad bytes are the peer's fault: " + attachment.status().to_string());
    return;
  }
  const MailboxGeometry& geometry = attachment->peer.view.geometry();
  require(geometry.plausible() && geometry.lanes == kLanes, "the peer's mailbox is plausible");
  require(attachment->peer_doorbells.size() == kLanes, "every lane has a doorbell");
  require(attachment->peer.segment->bytes() == geometry.bytes(), "the mailbox is all there");
  // The last byte can be touched: whatever the peer does to its file, it stays.
  fabric::shm::Cell* last = attachment->peer.view.cells(kLanes - 1) + geometry.cells - 1;
  last->payload[sizeof(last->payload) - 1] = std::byte{1};
}

void run(ByteView input) {
  Script script(input);
  const bool connecting = script.u8() % 2 == 1;
  AttachRequest request;
  request.connecting = connecting;
  request.lanes = kLanes;
  request.deadline = core::Deadline::after(std::chrono::seconds(20));
  Pair sockets;
  Packet first = take_packet(script);
  if (connecting) {
    send(sockets.far, first);
    (void)::shutdown(sockets.far.get(), SHUT_WR);
    return check(fabric::shm::attach_connecting(std::move(sockets.near), request));
  }
  const std::size_t descriptors = first.fds.size();
  auto offer = AttachOffer::decode(std::move(first));
  if (!offer.ok()) return require_refusal(offer.status());
  require(offer->mailbox.valid() && offer->doorbells.size() + 1 == descriptors,
          "a mailbox comes first, then doorbells");
  send(sockets.far, take_packet(script));
  (void)::shutdown(sockets.far.get(), SHUT_WR);
  check(fabric::shm::attach_accepting(std::move(sockets.near), *std::move(offer), request));
}

Bytes packet_seed(const core::WireWriter& content, const std::vector<PeerFile>& files) {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(files.size()));
  for (const PeerFile file : files) writer.u8(static_cast<std::uint8_t>(file));
  writer.u16(static_cast<std::uint16_t>(content.size()));
  writer.bytes(content.view());
  return writer.take();
}

core::WireWriter content(std::uint16_t type, bool geometry, std::uint32_t lanes = kLanes) {
  core::WireWriter writer;
  writer.u32(kMagic);
  writer.u16(type);
  const Bytes nonce(32, std::byte{0x5a});  // what fixed_random.cc gives
  writer.bytes(view_of(nonce));
  if (!geometry) return writer;
  writer.u32(lanes);
  writer.u32(MailboxGeometry().cells);
  writer.u32(MailboxGeometry().rows);
  return writer;
}

Seeds seeds() {
  constexpr std::uint16_t kAttach = 1, kAttached = 2, kConfirm = 3;
  const std::vector<PeerFile> honest{PeerFile::kMailbox, PeerFile::kDoorbell, PeerFile::kDoorbell};
  const Bytes accept{std::byte{0}}, connect{std::byte{1}};
  const Bytes attach = packet_seed(content(kAttach, true), honest);
  const Bytes attached = packet_seed(content(kAttached, true), honest);
  const Bytes confirm = packet_seed(content(kConfirm, false), {});
  const auto with = [](std::vector<PeerFile> files) {
    return packet_seed(content(kAttach, true), files);
  };
  return {
      {"accept", concatenated({accept, attach, confirm})},
      {"accept-no-confirm", concatenated({accept, attach})},
      {"accept-wrong-lanes",
       concatenated({accept, packet_seed(content(kAttach, true, 70), honest), confirm})},
      {"accept-no-files", concatenated({accept, with({}), confirm})},
      {"accept-short-mailbox",
       concatenated({accept, with({PeerFile::kLanding, PeerFile::kDoorbell, PeerFile::kDoorbell}),
                     confirm})},
      {"accept-pipe-as-doorbell",
       concatenated(
           {accept, with({PeerFile::kMailbox, PeerFile::kDoorbell, PeerFile::kPipe}), confirm})},
      {"connect", concatenated({connect, attached})},
      {"connect-wrong-packet", concatenated({connect, confirm})},
      {"connect-unsealed-mailbox",
       concatenated({connect, packet_seed(content(kAttached, true),
                                          {PeerFile::kUnsealed, PeerFile::kDoorbell,
                                           PeerFile::kDoorbell})})},
  };
}

[[maybe_unused]] const bool kAdded = add_target({"attach", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
