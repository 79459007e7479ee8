#include "fabric/shm/shm_fabric.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "core/log.h"
#include "fabric/shm/shm_link.h"

namespace farwrite::fabric::shm {
namespace {

// Connections that have not found their handshake yet. More than this at once is no honest use.
constexpr std::size_t kMaxWaiting = 64;
constexpr std::chrono::seconds kWaitForHandshake(10);

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

}  // namespace

Result<std::unique_ptr<Fabric>> ShmFabric::create(core::EventLoop& loop) {
  std::string name = unguessable_name();
  auto listener = listen_abstract(name);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<ShmFabric> fabric(new ShmFabric(loop, std::move(name), *std::move(listener)));
  FARWRITE_RETURN_IF_ERROR(
      loop.add_fd(fabric->listener_.get(), EPOLLIN,
                  [self = fabric.get()](std::uint32_t) { self->on_connection(); }));
  return std::unique_ptr<Fabric>(std::move(fabric));
}

ShmFabric::ShmFabric(core::EventLoop& loop, std::string name, core::UniqueFd listener)
    : loop_(loop), name_(std::move(name)), listener_(std::move(listener)) {}

ShmFabric::~ShmFabric() {
  loop_.remove_fd(listener_.get());
  std::map<int, Arrival> unread;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    unread.swap(unread_);
  }
  for (const auto& [fd, arrival] : unread) loop_.remove_fd(fd);
}

const Capabilities& ShmFabric::capabilities() const {
  static const Capabilities capabilities = [] {
    Capabilities shm;
    shm.max_write_bytes = std::numeric_limits<std::uint64_t>::max();
    shm.max_message_bytes = max_payload(MailboxGeometry().cells);
    shm.has_immediate = true;
    shm.whole_message_order = false;
    shm.maps_peer_memory = true;
    shm.cpu_free_target = true;
    return shm;
  }();
  return capabilities;
}

Result<std::uint64_t> ShmFabric::register_segment(const std::shared_ptr<memory::Segment>& segment) {
  const std::lock_guard<std::mutex> lock(mutex_);
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
  constexpr std::chrono::milliseconds kAskAgain(20);
  const core::Digest proof = attach_proof(request.secret);
  std::unique_lock<std::mutex> lock(mutex_);
  auto found = offers_.find(proof);
  while (found == offers_.end()) {
    const bool given_up = request.abandoned && request.abandoned();
    if (given_up || request.deadline.expired()) {
      return Status::error(StatusCode::kUnavailable, {"attach", request.peer_name, "shm"},
                           given_up ? "the peer gave up on shared memory"
                                    : "the peer did not come to the unix socket in time",
                           "see the peer's log; it may run on another host");
    }
    arrived_.wait_for(lock, kAskAgain);
    found = offers_.find(proof);
  }
  Offer offer = std::move(found->second);
  offers_.erase(found);
  lock.unlock();
  auto attachment = attach_accepting(std::move(offer.socket), std::move(offer.offer), request);
  if (!attachment.ok()) return attachment.status();
  return make_link(*std::move(attachment), request);
}

std::unique_ptr<Link> ShmFabric::make_link(Attachment attachment, const AttachRequest& request) {
  return std::make_unique<ShmLink>(std::move(attachment), request, loop_,
                                   [this](std::uint32_t id) -> std::shared_ptr<memory::Segment> {
                                     const std::lock_guard<std::mutex> lock(mutex_);
                                     for (const auto& weak : exported_) {
                                       if (auto segment = weak.lock();
                                           segment != nullptr && segment->id() == id) {
                                         return segment;
                                       }
                                     }
                                     return nullptr;
                                   });
}

void ShmFabric::on_connection() {
  core::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    if (errno == EMFILE || errno == ENFILE) spare_fd_.turn_away(listener_.get());
    return;
  }
  if (const Status same_user = check_same_user(socket.get()); !same_user.ok()) {
    core::log(core::LogLevel::kWarning, same_user.message());
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  drop_stale_locked();
  if (unread_.size() + offers_.size() >= kMaxWaiting) {
    core::log(core::LogLevel::kWarning,
              "shm: too many connections wait for their handshake; one more was dropped");
    return;
  }
  const int fd = socket.get();
  unread_.emplace(fd, Arrival{std::move(socket), core::Deadline::after(kWaitForHandshake)});
  const Status watched =
      loop_.add_fd(fd, EPOLLIN, [this, fd](std::uint32_t) { on_first_packet(fd); });
  if (!watched.ok()) unread_.erase(fd);
}

void ShmFabric::on_first_packet(int fd) {
  loop_.remove_fd(fd);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto arrival = unread_.find(fd);
  if (arrival == unread_.end()) return;
  core::UniqueFd socket = std::move(arrival->second.socket);
  const core::Deadline deadline = arrival->second.deadline;
  unread_.erase(arrival);
  auto packet = receive_packet(fd, core::Deadline::after({}), "attach");
  if (!packet.ok()) return;  // it left again
  auto offer = AttachOffer::decode(*std::move(packet));
  if (!offer.ok()) {
    core::log(core::LogLevel::kWarning, offer.status().message());
    return;
  }
  const core::Digest proof = offer->proof;
  offers_.insert_or_assign(proof, Offer{std::move(socket), *std::move(offer), deadline});
  arrived_.notify_all();
}

void ShmFabric::drop_stale_locked() {
  std::erase_if(offers_, [](const auto& entry) {
    return entry.second.deadline.expired() || has_hung_up(entry.second.socket.get());
  });
  std::erase_if(unread_, [this](const auto& entry) {
    if (!entry.second.deadline.expired()) return false;
    loop_.remove_fd(entry.first);
    return true;
  });
}

}  // namespace farwrite::fabric::shm
