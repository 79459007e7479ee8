#include "peer.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace farwrite::bench::ucx {
namespace {

void require(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

void tell(Blob& blob, const void* bytes, std::size_t size, std::uint64_t address = 0) {
  if (size > blob.bytes.size()) throw std::runtime_error("UCX's address is too long");
  std::memcpy(blob.bytes.data(), bytes, size);
  blob.address = address;
}

const ucp_request_param_t kNothing{};

}  // namespace

Peer::Peer(Shared& shared, bool receives, std::uint64_t pool_bytes)
    : shared_(shared), receives_(receives), data_bytes_(receives ? pool_bytes : pool_bytes / 2) {
  ucp_params_t wanted{};
  wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
  wanted.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
  require(ucp_init(&wanted, nullptr, &context_), "ucp_init");
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  require(ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");

  // UCX allocates it, since a peer maps only what UCX has allocated.
  ucp_mem_map_params_t map{};
  map.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  map.length = kHeader + data_bytes_;
  map.flags = UCP_MEM_MAP_ALLOCATE;
  require(ucp_mem_map(context_, &map, &mapping_), "ucp_mem_map");
  ucp_mem_attr_t found{};
  found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  require(ucp_mem_query(mapping_, &found), "ucp_mem_query");
  memory_ = static_cast<std::byte*>(found.address);
  std::memset(memory_, 0, map.length);  // prefaulted, as Farwrite's is

  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  require(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
  tell(shared_.worker[receives ? 0 : 1], address, size);
  ucp_worker_release_address(worker_, address);
  void* key = nullptr;
  require(ucp_rkey_pack(context_, mapping_, &key, &size), "ucp_rkey_pack");
  tell(shared_.memory[receives ? 0 : 1], key, size, reinterpret_cast<std::uint64_t>(memory_));
  ucp_rkey_buffer_release(key);
  shared_.meet([] {});

  const Blob& other = shared_.worker[receives ? 1 : 0];
  ucp_ep_params_t to{};
  to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  to.address = reinterpret_cast<const ucp_address_t*>(other.bytes.data());
  require(ucp_ep_create(worker_, &to, &endpoint_), "ucp_ep_create");
  const Blob& memory = shared_.memory[receives ? 1 : 0];
  remote_ = memory.address;
  require(ucp_ep_rkey_unpack(endpoint_, memory.bytes.data(), &key_), "ucp_ep_rkey_unpack");
  wait(ucp_ep_flush_nbx(endpoint_, &kNothing), "flush");
  shared_.meet([this] { progress(); });
}

Peer::~Peer() {
  if (key_ != nullptr) ucp_rkey_destroy(key_);
  if (endpoint_ != nullptr) {
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* const closing = ucp_ep_close_nbx(endpoint_, &how);
    if (UCS_PTR_IS_PTR(closing)) {
      while (ucp_request_check_status(closing) == UCS_INPROGRESS) progress();
      ucp_request_free(closing);
    }
  }
  if (mapping_ != nullptr) ucp_mem_unmap(context_, mapping_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void Peer::wait(ucs_status_ptr_t request, const char* what) {
  if (UCS_PTR_IS_ERR(request)) require(UCS_PTR_STATUS(request), what);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucp_request_check_status(request) == UCS_INPROGRESS) {
    if (shared_.over.load(std::memory_order_relaxed)) {
      throw std::runtime_error("the other process is gone");
    }
    progress();
  }
  const ucs_status_t status = ucp_request_check_status(request);
  ucp_request_free(request);
  require(status, what);
}

ucs_status_ptr_t Peer::send(const std::byte* from, std::uint64_t size, std::uint64_t tag) {
  return ucp_tag_send_nbx(endpoint_, from, size, tag, &kNothing);
}

ucs_status_ptr_t Peer::receive(std::byte* to, std::uint64_t size, std::uint64_t tag) {
  return ucp_tag_recv_nbx(worker_, to, size, tag, ~std::uint64_t{0}, &kNothing);
}

ucs_status_ptr_t Peer::put(const std::byte* from, std::uint64_t size, std::uint64_t offset) {
  return ucp_put_nbx(endpoint_, from, size, remote_ + kHeader + offset, key_, &kNothing);
}

ucs_status_ptr_t Peer::put_echo(const std::byte* from, std::uint64_t size) {
  return ucp_put_nbx(endpoint_, from, size, remote_ + kEcho, key_, &kNothing);
}

void Peer::raise_flag() {
  require(ucp_worker_fence(worker_), "ucp_worker_fence");
  ++flags_raised_;
  wait(ucp_put_nbx(endpoint_, &flags_raised_, sizeof(flags_raised_), remote_, key_, &kNothing),
       "put a flag");
}

void Peer::await_flag() {
  const auto* const flag = reinterpret_cast<const std::uint64_t*>(memory_);
  ++flags_taken_;
  for (std::uint32_t turn = 1; __atomic_load_n(flag, __ATOMIC_ACQUIRE) < flags_taken_; ++turn) {
    cpu_relax();
    // What is too large for a plain copy may need this side's help.
    if (turn % 256 == 0) progress();
    if (turn % 65536 == 0 && shared_.over.load()) {
      throw std::runtime_error("the other process is gone");
    }
  }
}

}  // namespace farwrite::bench::ucx
