#include "fabric/shm/attach.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "core/fields.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::uint32_t kMagic = 0x4d485346;  // "FSHM"
constexpr std::string_view kAttachOperation = "attach";

constexpr core::Reading kReadAttach = {.operation = kAttachOperation, .fabric = "shm"};

enum class AttachPacket : std::uint16_t { kAttach = 1, kAttached = 2, kConfirm = 3 };

// What a packet begins with.
struct Head {
  AttachPacket packet;
  std::string_view otherwise;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(core::constant(kMagic, otherwise), core::constant(packet, otherwise));
  }
};

struct GeometryField {
  MailboxGeometry& geometry;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(geometry.lanes, geometry.cells, geometry.rows);
  }
};

struct AttachMessage {
  core::Digest proof{};
  MailboxGeometry geometry;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(Head{AttachPacket::kAttach, "the first packet is not an ATTACH"}, proof,
         GeometryField{geometry});
  }
};

struct AttachedMessage {
  Nonce echo{};
  MailboxGeometry geometry;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(Head{AttachPacket::kAttached, "the peer's answer is not an ATTACHED"}, echo,
         GeometryField{geometry});
  }
};

struct ConfirmMessage {
  Nonce echo{};

  template <typename Wire>
  void fields(Wire& wire) {
    wire(Head{AttachPacket::kConfirm, "the peer's last packet is not a CONFIRM"}, echo);
  }
};

template <typename Message>
Status send_attach(int socket, const Message& message, const std::vector<int>& fds,
                   core::Deadline deadline) {
  const std::vector<std::byte> bytes = core::to_bytes(message);
  return send_packet(socket, {bytes.data(), bytes.size()}, fds, deadline, kAttachOperation);
}

template <typename Message>
Result<Message> read_attach(const Packet& packet) {
  return core::from_bytes<Message>({packet.bytes.data(), packet.bytes.size()}, kReadAttach);
}

Status broken(std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {kAttachOperation, {}, "shm"}, cause,
                       "run the same Farwrite release on both sides");
}

Status another_host() {
  return Status::error(StatusCode::kUnavailable, {kAttachOperation, {}, "shm"},
                       "the peer could not read a nonce from this process's memory, so the two "
                       "processes share no memory",
                       "use a fabric that crosses hosts");
}

// Our half: a mailbox and its doorbells, and an eye on the peer's process.
Status make_own_half(std::uint32_t lanes, Attachment& attachment) {
  attachment.same_process = peer_pid(attachment.socket.get()) == ::getpid();
  if (!attachment.same_process) {
    auto pidfd = peer_pidfd(attachment.socket.get());
    if (!pidfd.ok()) return pidfd.status();
    attachment.pidfd = *std::move(pidfd);
  }
  MailboxGeometry geometry;
  geometry.lanes = lanes;
  auto own = OwnMailbox::create(geometry);
  if (!own.ok()) return own.status();
  attachment.own = *std::move(own);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    core::UniqueFd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!doorbell.valid()) {
      return Status::system_error(StatusCode::kResourceExhausted, {kAttachOperation, {}, "shm"},
                                  "no descriptor to wake this side could be created", errno,
                                  "raise the limit of open files (ulimit -n)");
    }
    attachment.own_doorbells.push_back(std::move(doorbell));
  }
  attachment.spare.reset(::fcntl(attachment.own_doorbells.front().get(), F_DUPFD_CLOEXEC, 0));
  if (!attachment.spare.valid()) {
    return Status::system_error(StatusCode::kResourceExhausted, {kAttachOperation, {}, "shm"},
                                "no descriptor is left for memory of the peer", errno,
                                "raise the limit of open files (ulimit -n)");
  }
  return Status();
}

std::vector<int> own_fds(const Attachment& attachment) {
  std::vector<int> fds{attachment.own.segment->fd()};
  for (const core::UniqueFd& doorbell : attachment.own_doorbells) fds.push_back(doorbell.get());
  return fds;
}

// The peer's half, checked: a plausible mailbox and a doorbell for each lane.
Status take_peer_half(const MailboxGeometry& geometry, core::UniqueFd mailbox,
                      std::vector<core::UniqueFd> doorbells, std::uint32_t lanes,
                      Attachment& attachment) {
  if (!geometry.plausible() || geometry.lanes != lanes || doorbells.size() != lanes) {
    return broken("the peer's shared memory has an implausible geometry");
  }
  auto peer = PeerMailbox::map(std::move(mailbox), geometry);
  if (!peer.ok()) return peer.status();
  attachment.peer = *std::move(peer);
  attachment.peer_doorbells = std::move(doorbells);
  return Status();
}

// A pipe or a file in its place could block the thread that rings it.
bool is_eventfd(const core::UniqueFd& fd) {
  char target[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
  const ssize_t length = ::readlink(link.c_str(), target, sizeof(target) - 1);
  return length > 0 && std::string_view(target) == "anon_inode:[eventfd]";
}

// Splits a packet's descriptors into the mailbox and the doorbells; false if they are none.
bool split_fds(Packet& packet, core::UniqueFd& mailbox, std::vector<core::UniqueFd>& doorbells) {
  if (packet.fds.empty()) return false;
  if (!std::all_of(packet.fds.begin() + 1, packet.fds.end(), is_eventfd)) return false;
  mailbox = std::move(packet.fds.front());
  doorbells.assign(std::make_move_iterator(packet.fds.begin() + 1),
                   std::make_move_iterator(packet.fds.end()));
  return true;
}

bool is_nonce(const Nonce& echo, const Nonce& nonce) {
  return core::constant_time_equal({echo.data(), echo.size()}, {nonce.data(), nonce.size()});
}

}  // namespace

core::Digest attach_proof(const std::array<std::byte, 32>& secret) {
  constexpr std::string_view kLabel = "farwrite shm attach";
  return core::hmac_sha256({secret.data(), secret.size()}, {kLabel.data(), kLabel.size()});
}

Result<core::Digest> AttachOffer::peek_proof(ByteView bytes) {
  Result<AttachMessage> message = core::from_bytes<AttachMessage>(bytes, kReadAttach);
  if (!message.ok()) return message.status();
  return message->proof;
}

Result<AttachOffer> AttachOffer::decode(Packet packet) {
  Result<AttachMessage> message = read_attach<AttachMessage>(packet);
  if (!message.ok()) return message.status();
  AttachOffer offer;
  offer.proof = message->proof;
  offer.geometry = message->geometry;
  if (!split_fds(packet, offer.mailbox, offer.doorbells)) {
    return broken("ATTACH came without its descriptors");
  }
  return offer;
}

Result<Attachment> attach_connecting(core::UniqueFd socket, const AttachRequest& request) {
  Attachment attachment;
  attachment.socket = std::move(socket);
  const int fd = attachment.socket.get();
  FARWRITE_RETURN_IF_ERROR(check_same_user(fd));
  FARWRITE_RETURN_IF_ERROR(make_own_half(request.lanes, attachment));

  FARWRITE_RETURN_IF_ERROR(
      send_attach(fd, AttachMessage{attach_proof(request.secret), attachment.own.view.geometry()},
                  own_fds(attachment), request.deadline));

  auto packet = receive_packet(fd, request.deadline, kAttachOperation);
  if (!packet.ok()) return packet.status();
  Result<AttachedMessage> attached = read_attach<AttachedMessage>(*packet);
  if (!attached.ok()) return attached.status();
  if (!is_nonce(attached->echo, attachment.own.nonce)) return another_host();
  core::UniqueFd mailbox;
  std::vector<core::UniqueFd> doorbells;
  if (!split_fds(*packet, mailbox, doorbells))
    return broken("ATTACHED came without its descriptors");
  FARWRITE_RETURN_IF_ERROR(take_peer_half(attached->geometry, std::move(mailbox),
                                          std::move(doorbells), request.lanes, attachment));

  FARWRITE_RETURN_IF_ERROR(
      send_attach(fd, ConfirmMessage{attachment.peer.nonce}, {}, request.deadline));
  return attachment;
}

Result<Attachment> attach_accepting(core::UniqueFd socket, AttachOffer offer,
                                    const AttachRequest& request) {
  Attachment attachment;
  attachment.socket = std::move(socket);
  const int fd = attachment.socket.get();
  FARWRITE_RETURN_IF_ERROR(make_own_half(request.lanes, attachment));
  FARWRITE_RETURN_IF_ERROR(take_peer_half(offer.geometry, std::move(offer.mailbox),
                                          std::move(offer.doorbells), request.lanes, attachment));

  FARWRITE_RETURN_IF_ERROR(
      send_attach(fd, AttachedMessage{attachment.peer.nonce, attachment.own.view.geometry()},
                  own_fds(attachment), request.deadline));

  auto packet = receive_packet(fd, request.deadline, kAttachOperation);
  if (!packet.ok()) return packet.status();
  Result<ConfirmMessage> confirm = read_attach<ConfirmMessage>(*packet);
  if (!confirm.ok()) return confirm.status();
  if (!is_nonce(confirm->echo, attachment.own.nonce)) return another_host();
  return attachment;
}

}  // namespace farwrite::fabric::shm
