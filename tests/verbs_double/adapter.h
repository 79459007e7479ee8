// Adapter: everything behind one software RNIC: its devices, objects, faults and counts.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "verbs_double/event_queue.h"
#include "verbs_double/memory_table.h"
#include "verbs_double/rnic_options.h"
#include "verbs_double/wire.h"

namespace farwrite::verbs_double {

struct CompletionChannel;
struct CompletionQueue;
struct Network;
struct QueuePair;

// What a test may have refused.
enum class Call {
  kGetDevices,
  kQueryDevice,
  kQueryPort,
  kAllocPd,
  kRegMr,
  kRegDmabufMr,
  kCreateCompChannel,
  kCreateCq,
  kReqNotifyCq,
  kCreateEventChannel,
  kCreateId,
  kBindAddr,
  kListen,
  kResolveAddr,
  kResolveRoute,
  kCreateQp,
  kConnect,
  kAccept,
  kPostSend,
  kPostRecv,
};

inline constexpr int kSendOpcodes = 7;  // IBV_WR_RDMA_WRITE .. IBV_WR_ATOMIC_FETCH_AND_ADD

struct Counters {
  std::array<std::atomic<std::uint64_t>, kSendOpcodes> posted{};
  std::atomic<std::uint64_t> signalled{0};
  std::atomic<std::uint64_t> inlined{0};
  std::atomic<std::uint64_t> receives{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> rnr_naks{0};
  std::atomic<std::uint64_t> overruns{0};
};

struct Port {
  PortOptions options;
  std::optional<sockaddr_storage> address;
  std::vector<ibv_gid_entry> gids;
};

// A device and its one context, which all of the process shares.
struct Device {
  RnicOptions options;
  ibv_device device{};
  ibv_context context{};
  std::vector<Port> ports;  // options.state under Adapter::objects
  EventQueue<ibv_async_event> events;
};

struct Refusal {
  int error = 0;
  int after = 0;
  int times = 0;  // negative: for ever
};

struct Failure {
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::uint32_t vendor_error = 0;
  const ibv_qp* pair = nullptr;  // null: the next request of any
  int after = 0;
};

struct Adapter {
  Adapter(const std::vector<RnicOptions>& options, const WireOptions& wire_behaviour,
          std::shared_ptr<Network> joins);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;
  ~Adapter();

  Device* device_of(const ibv_context* context) const;
  // The device and port with this address; null if there is none.
  Device* device_at(const sockaddr& address, std::uint8_t* port) const;
  // By its place in Device::ports.
  ibv_port_state port_state(const Device& device, std::size_t port);

  // The errno with which a test wants this call to fail, or 0.
  int refused(Call call);
  std::optional<Failure> failure_for(const ibv_qp* pair);
  // Something that a user of the libraries must not do, or that a test must not miss.
  void complain(const std::string& sentence);
  // To the thread that asks the context for asynchronous events.
  void announce(const ibv_context* context, const ibv_async_event& event);
  // The pair or completion queue; null for ports and devices.
  static const void* subject_of(const ibv_async_event& event);
  // Drops the events that nothing has taken. Destroying what they are about waits for the others.
  void forget_events(const ibv_context* context, const void* about);

  // A pair has left the connection. On iWARP, that ends the connection for both.
  void pair_failed(QueuePair& pair);

  const std::shared_ptr<Network> network;
  const WireOptions wire_options;
  std::vector<std::unique_ptr<Device>> devices;
  MemoryTable memory;
  Counters counters;
  std::atomic<bool> paused{false};
  std::atomic<bool> broken{false};

  std::mutex objects;
  // All under `objects`.
  std::set<ibv_pd*> domains;
  std::map<ibv_comp_channel*, std::unique_ptr<CompletionChannel>> channels;
  std::map<ibv_cq*, std::unique_ptr<CompletionQueue>> queues;
  std::map<ibv_qp*, std::shared_ptr<QueuePair>> pairs;
  int device_lists = 0;
  int event_channels = 0;
  std::multiset<const void*> async_taken;  // what the events not yet acknowledged are about

  std::mutex faults;  // innermost of all
  std::atomic<bool> any_faults{false};
  std::map<Call, Refusal> refusals;     // under `faults`
  std::vector<Failure> failures;        // under `faults`
  std::vector<std::string> complaints;  // under `faults`

  Wire wire;  // last: its thread uses all of the above
};

}  // namespace farwrite::verbs_double
