#include "fabric/shm/shm_fabric.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "core/log.h"
#include "core/mutex.h"
#include "fabric/shm/shm_link.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::string_view kAttach = "attach";

std::string unguessable_name() {
  std::array<std::uint8_t, 16> bytes{};
  core::random_bytes({bytes.data(), bytes.size()});
  std::string name = "farwrite-";
  constexpr char kDigits[] = "0123456789abcdef";
  for (const std::uint8_t byte : bytes) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

Result<std::string> origin_of(int socket) {
  FARWRITE_RETURN_IF_ERROR(check_same_user(socket));
  return "process " + std::to_string(peer_pid(socket));
}

// The proof in an ATTACH, which stays in the socket until its handshake takes it.
Result<bool> read_proof(int socket, std::vector<std::byte>& key) {
  auto packet = peek_packet(socket, kAttach);
  if (!packet.ok()) return packet.status();
  if (packet->empty()) return false;
  auto proof = AttachOffer::peek_proof({packet->data(), packet->size()});
  if (!proof.ok()) return proof.status();
  key.assign(proof->begin(), proof->end());
  return true;
}

}  // namespace

Result<std::unique_ptr<Fabric>> ShmFabric::create(core::EventLoop& loop,
                                                  std::chrono::nanoseconds handshake_timeout,
                                                  std::chrono::nanoseconds idle_time) {
  std::string name = unguessable_name();
  auto listener = listen_abstract(name);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<ShmFabric> fabric(
      new ShmFabric(loop, std::move(name), *std::move(listener), idle_time));
  auto lobby =
      Lobby::open(loop, fabric->listener_.get(), handshake_timeout, {"shm", origin_of, read_proof});
  if (!lobby.ok()) return lobby.status();
  fabric->lobby_ = *std::move(lobby);
  return std::unique_ptr<Fabric>(std::move(fabric));
}

Status ShmFabric::check_kernel() {
  const auto failed = [](std::string_view call) {
    return Status(StatusCode::kUnavailable,
                  std::string(call) + ": " + std::system_category().message(errno));
  };
  const core::UniqueFd memory(::memfd_create("farwrite-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return failed("memfd_create");
  if (::ftruncate(memory.get(), 4096) != 0) return failed("ftruncate of a memfd");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0) {
    return failed("sealing a memfd (needs Linux 5.1)");
  }
  const core::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!process.valid()) return failed("pidfd_open (needs Linux 5.3)");
  return Status();
}

ShmFabric::ShmFabric(core::EventLoop& loop, std::string name, core::UniqueFd listener,
                     std::chrono::nanoseconds idle_time)
    : loop_(loop), name_(std::move(name)), listener_(std::move(listener)), idle_time_(idle_time) {}

const Capabilities& ShmFabric::capabilities() const {
  static const Capabilities capabilities = [] {
    Capabilities shm;
    shm.max_write_bytes = std::numeric_limits<std::uint64_t>::max();
    shm.max_message_bytes = max_payload(MailboxGeometry().cells);
    shm.has_immediate = true;
    shm.whole_message_order = false;
    shm.maps_peer_memory = true;
    shm.ends_in_post = true;
    shm.cpu_free_target = true;
    shm.gpu_exports = true;
    shm.gpu_landing = true;
    shm.gpu_copies = true;
    return shm;
  }();
  return capabilities;
}

Result<std::uint64_t> ShmFabric::register_segment(const std::shared_ptr<memory::Segment>& segment) {
  const core::Lock lock(mutex_);
  std::erase_if(exported_, [](const auto& weak) { return weak.expired(); });
  exported_.push_back(segment);
  return GrantKey{segment->id(), 0}.pack();
}

Result<std::unique_ptr<Link>> ShmFabric::attach(const AttachRequest& request) {
  if (!request.connecting) return accept(request);
  auto socket = connect_abstract(request.peer_address, request.deadline);
  if (!socket.ok()) return socket.status();
  auto attachment = attach_connecting(*std::move(socket), request);
  if (!attachment.ok()) return attachment.status();
  return make_link(*std::move(attachment), request);
}

Result<std::unique_ptr<Link>> ShmFabric::accept(const AttachRequest& request) {
  const core::Digest proof = attach_proof(request.secret);
  Status broken;  // the reason, unless a better connection comes
  while (true) {
    auto socket = lobby_->take({proof.data(), proof.size()}, request,
                               "see the peer's log; the peer may run on another host");
    if (!socket.ok()) return broken.ok() ? socket.status() : broken;
    auto packet = receive_packet(socket->get(), request.deadline, kAttach);
    auto offer = packet.ok() ? AttachOffer::decode(*std::move(packet))
                             : Result<AttachOffer>(packet.status());
    if (!offer.ok()) {  // the peer itself may still come
      core::log(core::LogLevel::kWarning, offer.status().message());
      broken = offer.status();
      continue;
    }
    auto attachment = attach_accepting(*std::move(socket), *std::move(offer), request);
    if (!attachment.ok()) return attachment.status();
    return make_link(*std::move(attachment), request);
  }
}

std::unique_ptr<Link> ShmFabric::make_link(Attachment attachment, const AttachRequest& request) {
  return std::make_unique<ShmLink>(std::move(attachment), request, loop_, idle_time_,
                                   [this](std::uint32_t id) -> std::shared_ptr<memory::Segment> {
                                     const core::Lock lock(mutex_);
                                     for (const auto& weak : exported_) {
                                       if (auto segment = weak.lock();
                                           segment != nullptr && segment->id() == id) {
                                         return segment;
                                       }
                                     }
                                     return nullptr;
                                   });
}

}  // namespace farwrite::fabric::shm
