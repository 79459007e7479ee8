#include "fabric/verbs/adapter.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/log.h"
#include "core/mutex.h"
#include "fabric/verbs/protocol.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr std::uint32_t kSendBuffers = 32;
constexpr std::uint8_t kReads = 16;

Status refused(const std::string& device, std::string_view what, int error) {
  return Status::system_error(StatusCode::kUnavailable, {"open a device", "", "verbs"},
                              device + ": " + std::string(what), error,
                              "see `ibv_devinfo -v` and docs/how-to/rdma.md");
}

}  // namespace

ibv_qp_init_attr queue_pair_attributes(const LaneLimits& limits, ibv_cq* queue) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queue;
  attributes.recv_cq = queue;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = limits.sends;
  attributes.cap.max_recv_wr = limits.receives;
  attributes.cap.max_send_sge = 2;
  attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = limits.inline_bytes;
  return attributes;
}

Domain::~Domain() {
  if (domain_ != nullptr) (void)library_.dealloc_pd(domain_);
  if (devices_ != nullptr) library_.free_devices(devices_);
}

void Domain::open_devices() {
  int count = 0;
  devices_ = library_.get_devices(&count);
}

Status Domain::allocate(ibv_context* context, const std::string& device) {
  domain_ = library_.alloc_pd(context);
  return domain_ != nullptr ? Status() : refused(device, "no protection domain", errno);
}

Result<std::shared_ptr<Adapter>> Adapter::create(const FabricOptions& options) {
  VerbsLibrary* library = options.library;
  if (library == nullptr) {
    auto opened = VerbsLibrary::open();
    if (!opened.ok()) return opened.status();
    library = *opened;
  }
  std::shared_ptr<Adapter> adapter(new Adapter(*library, options));
  FARWRITE_RETURN_IF_ERROR(adapter->open());
  return adapter;
}

Status Adapter::open() {
  domain_->open_devices();
  auto addresses = choose_addresses(library_, options_);
  if (!addresses.ok()) return addresses.status();
  address_ = addresses->front();
  FARWRITE_RETURN_IF_ERROR(domain_->allocate(address_.context, address_.device));
  for (std::uint32_t i = 0; i < std::max<std::uint32_t>(1, options_.completion_queues); ++i) {
    auto queue = CompletionQueue::create(library_, address_.context, address_.limits.max_cqe);
    if (!queue.ok()) return queue.status();
    queues_.push_back(*std::move(queue));
  }
  choose_limits();
  FARWRITE_RETURN_IF_ERROR(probe());
  if (options_.must_register > 0) {
    const Status fits = can_register(options_.must_register);
    // There is a device that could be used, so this is worth more than a word.
    if (!fits.ok()) core::log(core::LogLevel::kWarning, "verbs is left out: " + fits.message());
    FARWRITE_RETURN_IF_ERROR(fits);
  }
  registrations_ =
      std::make_unique<RegistrationCache>(library_, domain_->get(), address_.device,
                                          address_.limits.max_mr_size, domain_, address_.iwarp);
  core::log(core::LogLevel::kInfo, "verbs: " + describe(address_));
  return Status();
}

void Adapter::choose_limits() {
  const ibv_device_attr& device = address_.limits;
  const auto most_requests = static_cast<std::uint32_t>(std::max(device.max_qp_wr, 64));
  limits_.sends = std::clamp<std::uint32_t>(options_.send_queue_depth, 16, most_requests);
  limits_.send_buffers = std::min(kSendBuffers, limits_.sends);
  limits_.credits =
      std::clamp<std::uint32_t>(options_.receive_credits, 4, most_requests - kReservedReceives);
  limits_.receives = limits_.credits + kReservedReceives;
  // A buffer and room in the queue come back with the next signalled request, so one must come
  // before they run out.
  limits_.signal_every =
      std::clamp<std::uint32_t>(options_.signal_every, 1, limits_.send_buffers / 2);
  limits_.inline_bytes = options_.inline_bytes;
  // Large enough for a message of ours, and a piece of memory has at most 4 GiB.
  const std::uint64_t most = std::clamp<std::uint64_t>(address_.max_message_bytes, 2 * kBounceBytes,
                                                       std::uint64_t{1} << 31);
  limits_.chunk_bytes = std::clamp<std::uint64_t>(options_.chunk_bytes, 2 * kBounceBytes, most);
  limits_.reads = static_cast<std::uint8_t>(
      std::clamp<int>(std::min(device.max_qp_init_rd_atom, device.max_qp_rd_atom), 1, kReads));
  has_immediate_ = options_.use_immediate && !address_.iwarp;
}

Status Adapter::probe() {
  rdma_event_channel* const channel = library_.create_event_channel();
  if (channel == nullptr) return refused(address_.device, "no rdma_cm event channel", errno);
  rdma_cm_id* id = nullptr;
  int error = library_.create_id(channel, &id);
  if (error == 0) {
    sockaddr_storage bound = address_.address;
    error = library_.bind_addr(id, reinterpret_cast<sockaddr*>(&bound));
  }
  ibv_cq* const queue =
      error == 0 ? library_.create_cq(address_.context,
                                      static_cast<int>(limits_.sends + limits_.receives), nullptr)
                 : nullptr;
  bool in_order = false;
  if (queue != nullptr) {
    ibv_qp_init_attr attributes = queue_pair_attributes(limits_, queue);
    error = library_.create_qp(id, domain_->get(), &attributes);
    while (error == EINVAL && limits_.inline_bytes > 0) {
      // More inline bytes than the adapter has room for, and it does not say how many it would.
      limits_.inline_bytes = limits_.inline_bytes >= 32 ? limits_.inline_bytes / 2 : 0;
      attributes = queue_pair_attributes(limits_, queue);
      error = library_.create_qp(id, domain_->get(), &attributes);
    }
    if (error == 0) {
      in_order = library_.data_in_order(id->qp, IBV_WR_RDMA_WRITE);
      library_.destroy_qp(id);
    }
    (void)library_.destroy_cq(queue);
  } else if (error == 0) {
    error = errno;
  }
  if (id != nullptr) (void)library_.destroy_id(id);
  library_.destroy_event_channel(channel);
  if (error != 0) return refused(address_.device, "it cannot create a queue pair", error);
  const bool atomics = address_.limits.atomic_cap != IBV_ATOMIC_NONE;
  // The notification comes with a completion, and that waits for all bytes before. A flush has
  // none at the peer, so it needs an atomic there. A tail flag needs order, so it comes first.
  relaxed_ordering_ = options_.relaxed_ordering.value_or(has_immediate_ && atomics &&
                                                         !options_.assume_data_in_order);
  if (relaxed_ordering_ && !atomics) {
    return Status::error(
        StatusCode::kUnsupported, {"open a device", "", "verbs"},
        address_.device +
            " has no atomics, and without them a flush guarantees nothing under relaxed ordering",
        "leave relaxed_ordering unset");
  }
  data_in_order_ = (in_order || options_.assume_data_in_order) && !relaxed_ordering_;
  return Status();
}

Status Adapter::can_register(std::uint64_t bytes) const {
  const std::uint64_t most = address_.limits.max_mr_size;
  if (most != 0 && bytes > most)
    return too_large({{nullptr, bytes}, true, 0, most, address_.device});
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) return Status();
  // A limit does not bind who has CAP_IPC_LOCK, so the kernel is asked, with memory of no use.
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status();  // the allocation reports it
  ibv_mr* const region = library_.reg_mr(domain(), memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  const int error = errno;
  if (region != nullptr) (void)library_.dereg_mr(region);
  (void)::munmap(memory, bytes);
  if (region != nullptr) return Status();
  return registration_error({{memory, bytes}, true, 0, most, address_.device}, error);
}

void Adapter::add(AdapterUser& user) {
  const core::Lock lock(users_mutex_);
  users_.push_back(&user);
  if (!failure_.empty()) user.device_failed(failure_);
}

void Adapter::remove(AdapterUser& user) {
  const core::Lock lock(users_mutex_);
  std::erase(users_, &user);
}

void Adapter::failed(const std::string& sentence) {
  const core::Lock lock(users_mutex_);
  failure_ = sentence;
  for (AdapterUser* const user : users_) user->device_failed(sentence);
}

CompletionQueue& Adapter::next_queue() {
  return *queues_[next_queue_.fetch_add(1) % queues_.size()];
}

}  // namespace farwrite::fabric::verbs
