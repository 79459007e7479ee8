#include "fabric/verbs/real_library.h"

#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace farwrite::fabric::verbs {
namespace {

// 0 or an errno value, whether a function returns that itself, its negative (some drivers), or -1
// with errno.
int normal(int result) {
  if (result >= 0) return result;
  if (result != -1) return -result;
  return errno != 0 ? errno : EIO;
}

Status unusable(const std::string& cause) {
  return Status::error(
      StatusCode::kUnavailable, {"use verbs"}, cause,
      "install rdma-core 32 or newer (packages libibverbs1, librdmacm1 and ibverbs-providers on "
      "Debian and Ubuntu, libibverbs and librdmacm on Fedora and RHEL), or leave verbs out of "
      "fabrics");
}

// Finds functions in one file; remembers the first that is missing.
class File {
 public:
  explicit File(const std::string& name)
      : name_(name), handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* const text = ::dlerror();
    problem_ = name_ + " cannot be opened: " + (text == nullptr ? "unknown error" : text);
  }

  template <typename Function>
  void find(Function& function, const char* name, bool needed) {
    if (handle_ == nullptr) return;
    // The newest version of a function that has several: the one that verbs.h declares.
    void* const symbol = ::dlsym(handle_, name);
    if (symbol == nullptr && needed && problem_.empty()) problem_ = name_ + " has no " + name;
    function = reinterpret_cast<Function>(symbol);
  }

  const std::string& problem() const { return problem_; }

 private:
  std::string name_;
  std::string problem_;
  void* handle_;
};

}  // namespace

Result<Functions> Functions::load(const std::string& verbs_file, const std::string& cm_file) {
  Functions functions;
  File verbs(verbs_file);
#define FARWRITE_FIND(name) verbs.find(functions.name, #name, true);
  FARWRITE_VERBS_FUNCTIONS(FARWRITE_FIND)
#undef FARWRITE_FIND
#define FARWRITE_FIND(name) verbs.find(functions.name, #name, false);
  FARWRITE_VERBS_OPTIONAL_FUNCTIONS(FARWRITE_FIND)
#undef FARWRITE_FIND
  if (!verbs.problem().empty()) return unusable(verbs.problem());
  File cm(cm_file);
#define FARWRITE_FIND(name) cm.find(functions.name, #name, true);
  FARWRITE_CM_FUNCTIONS(FARWRITE_FIND)
#undef FARWRITE_FIND
  if (!cm.problem().empty()) return unusable(cm.problem());
  // Before anything else is called. Linux 5.12 and newer need nothing; on older ones a page that an
  // adapter writes while a child is forked would otherwise get lost between the two processes. If
  // it is too late, other code in this process uses verbs and has decided.
  if (functions.ibv_fork_init != nullptr) (void)functions.ibv_fork_init();
  return functions;
}

Result<VerbsLibrary*> VerbsLibrary::open() {
  static const Result<Functions>* const loaded =
      new Result<Functions>(Functions::load("libibverbs.so.1", "librdmacm.so.1"));
  if (!loaded->ok()) return loaded->status();
  static RealLibrary* const library = new RealLibrary(loaded->value());  // threads may be inside
  return static_cast<VerbsLibrary*>(library);
}

std::vector<sockaddr_storage> host_addresses() {
  std::vector<sockaddr_storage> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage address{};  // a link-local address brings its scope id along
    std::memcpy(&address, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back(address);
  }
  ::freeifaddrs(first);
  return found;
}

ibv_context** RealLibrary::get_devices(int* count) { return functions_.rdma_get_devices(count); }

void RealLibrary::free_devices(ibv_context** devices) { functions_.rdma_free_devices(devices); }

const char* RealLibrary::device_name(ibv_context* context) {
  return functions_.ibv_get_device_name(context->device);
}

std::vector<sockaddr_storage> RealLibrary::addresses() { return host_addresses(); }

int RealLibrary::query_device(ibv_context* context, ibv_device_attr* attributes) {
  return normal(functions_.ibv_query_device(context, attributes));
}

// As verbs.h does inline: the function of that name only knows the shorter struct of old. (The
// parentheses keep verbs.h from replacing it by a macro.)
int RealLibrary::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  std::memset(attributes, 0, sizeof *attributes);
  verbs_context* const extended = verbs_get_ctx_op(context, query_port);
  if (extended != nullptr) {
    return normal(extended->query_port(context, port, attributes, sizeof *attributes));
  }
  return normal((functions_.ibv_query_port)(context, port,
                                            reinterpret_cast<_compat_ibv_port_attr*>(attributes)));
}

int RealLibrary::query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
                           ibv_gid_entry* entry) {
  return normal(functions_._ibv_query_gid_ex(context, port, index, entry, 0, sizeof *entry));
}

int RealLibrary::get_async_event(ibv_context* context, ibv_async_event* event) {
  return normal(functions_.ibv_get_async_event(context, event));
}

void RealLibrary::ack_async_event(ibv_async_event* event) { functions_.ibv_ack_async_event(event); }

ibv_pd* RealLibrary::alloc_pd(ibv_context* context) { return functions_.ibv_alloc_pd(context); }

int RealLibrary::dealloc_pd(ibv_pd* domain) { return normal(functions_.ibv_dealloc_pd(domain)); }

bool RealLibrary::hides_from_children() {
  if (functions_.ibv_fork_init == nullptr) return false;
  // Older than rdma-core 35: it does not ask the kernel.
  if (functions_.ibv_is_fork_initialized == nullptr) return true;
  return functions_.ibv_is_fork_initialized() == IBV_FORK_ENABLED;
}

ibv_mr* RealLibrary::reg_mr(ibv_pd* domain, void* address, std::size_t bytes, unsigned access) {
  // Leaves out optional bits itself where the kernel does not know them.
  if (functions_.ibv_reg_mr_iova2 != nullptr && (access & IBV_ACCESS_OPTIONAL_RANGE) != 0) {
    return functions_.ibv_reg_mr_iova2(domain, address, bytes,
                                       reinterpret_cast<std::uintptr_t>(address), access);
  }
  return (functions_.ibv_reg_mr)(domain, address, bytes,
                                 static_cast<int>(access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE}));
}

ibv_mr* RealLibrary::reg_dmabuf_mr(ibv_pd* domain, int fd, std::uint64_t offset, std::size_t bytes,
                                   std::uint64_t address, unsigned access) {
  if (functions_.ibv_reg_dmabuf_mr == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return functions_.ibv_reg_dmabuf_mr(domain, offset, bytes, address, fd, static_cast<int>(access));
}

int RealLibrary::dereg_mr(ibv_mr* region) { return normal(functions_.ibv_dereg_mr(region)); }

ibv_comp_channel* RealLibrary::create_comp_channel(ibv_context* context) {
  return functions_.ibv_create_comp_channel(context);
}

int RealLibrary::destroy_comp_channel(ibv_comp_channel* channel) {
  return normal(functions_.ibv_destroy_comp_channel(channel));
}

ibv_cq* RealLibrary::create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  // Interrupts of several queues, one for each poller, should not all meet on one core.
  const auto vectors = static_cast<unsigned>(std::max(context->num_comp_vectors, 1));
  const unsigned vector = next_vector_.fetch_add(1, std::memory_order_relaxed) % vectors;
  return functions_.ibv_create_cq(context, entries, nullptr, channel, static_cast<int>(vector));
}

int RealLibrary::destroy_cq(ibv_cq* queue) { return normal(functions_.ibv_destroy_cq(queue)); }

int RealLibrary::poll_cq(ibv_cq* queue, int entries, ibv_wc* completions) {
  return queue->context->ops.poll_cq(queue, entries, completions);
}

int RealLibrary::req_notify_cq(ibv_cq* queue) {
  return normal(queue->context->ops.req_notify_cq(queue, 0));
}

int RealLibrary::get_cq_event(ibv_comp_channel* channel, ibv_cq** queue) {
  void* context = nullptr;
  return normal(functions_.ibv_get_cq_event(channel, queue, &context));
}

void RealLibrary::ack_cq_events(ibv_cq* queue, unsigned events) {
  functions_.ibv_ack_cq_events(queue, events);
}

const char* RealLibrary::wc_status_text(ibv_wc_status status) {
  return functions_.ibv_wc_status_str(status);
}

int RealLibrary::modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  return normal(functions_.ibv_modify_qp(pair, attributes, mask));
}

int RealLibrary::query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) {
  return normal(functions_.ibv_query_qp(pair, attributes, mask, init));
}

int RealLibrary::post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) {
  return normal(pair->context->ops.post_send(pair, first, bad));
}

int RealLibrary::post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) {
  return normal(pair->context->ops.post_recv(pair, first, bad));
}

bool RealLibrary::data_in_order(ibv_qp* pair, ibv_wr_opcode opcode) {
  return functions_.ibv_query_qp_data_in_order != nullptr &&
         functions_.ibv_query_qp_data_in_order(pair, opcode, 0) == 1;
}

rdma_event_channel* RealLibrary::create_event_channel() {
  return functions_.rdma_create_event_channel();
}

void RealLibrary::destroy_event_channel(rdma_event_channel* channel) {
  functions_.rdma_destroy_event_channel(channel);
}

int RealLibrary::get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return normal(functions_.rdma_get_cm_event(channel, event));
}

int RealLibrary::ack_cm_event(rdma_cm_event* event) {
  return normal(functions_.rdma_ack_cm_event(event));
}

const char* RealLibrary::cm_event_text(rdma_cm_event_type event) {
  return functions_.rdma_event_str(event);
}

int RealLibrary::create_id(rdma_event_channel* channel, rdma_cm_id** id) {
  return normal(functions_.rdma_create_id(channel, id, nullptr, RDMA_PS_TCP));
}

int RealLibrary::destroy_id(rdma_cm_id* id) { return normal(functions_.rdma_destroy_id(id)); }

int RealLibrary::migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return normal(functions_.rdma_migrate_id(id, channel));
}

int RealLibrary::bind_addr(rdma_cm_id* id, sockaddr* address) {
  return normal(functions_.rdma_bind_addr(id, address));
}

int RealLibrary::listen(rdma_cm_id* id, int backlog) {
  return normal(functions_.rdma_listen(id, backlog));
}

std::uint16_t RealLibrary::local_port(rdma_cm_id* id) {
  return ntohs(functions_.rdma_get_src_port(id));
}

int RealLibrary::resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                              int timeout_ms) {
  return normal(functions_.rdma_resolve_addr(id, source, destination, timeout_ms));
}

int RealLibrary::resolve_route(rdma_cm_id* id, int timeout_ms) {
  return normal(functions_.rdma_resolve_route(id, timeout_ms));
}

int RealLibrary::create_qp(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* attributes) {
  return normal(functions_.rdma_create_qp(id, domain, attributes));
}

void RealLibrary::destroy_qp(rdma_cm_id* id) { functions_.rdma_destroy_qp(id); }

int RealLibrary::connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  return normal(functions_.rdma_connect(id, parameters));
}

int RealLibrary::accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  return normal(functions_.rdma_accept(id, parameters));
}

int RealLibrary::reject(rdma_cm_id* id) { return normal(functions_.rdma_reject(id, nullptr, 0)); }

int RealLibrary::disconnect(rdma_cm_id* id) { return normal(functions_.rdma_disconnect(id)); }

int RealLibrary::set_option(rdma_cm_id* id, int level, int name, void* value, std::size_t bytes) {
  return normal(functions_.rdma_set_option(id, level, name, value, bytes));
}

}  // namespace farwrite::fabric::verbs
