// Adapter: one RDMA device as a fabric uses it: its protection domain, completion queues and
// registrations.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/device_choice.h"
#include "fabric/verbs/registration_cache.h"
#include "fabric/verbs/verbs_library.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// A device's context and protection domain, kept by the code that has memory registered in it.
class Domain {
 public:
  explicit Domain(VerbsLibrary& library) : library_(library) {}
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // Keeps the contexts of all devices open.
  void open_devices();
  Status allocate(ibv_context* context, const std::string& device);
  ibv_pd* get() const { return domain_; }

 private:
  VerbsLibrary& library_;
  ibv_context** devices_ = nullptr;
  ibv_pd* domain_ = nullptr;
};

// What queue pairs of this adapter get: the options, cut to what it allows.
struct LaneLimits {
  std::uint32_t sends = 0;         // work requests under way
  std::uint32_t send_buffers = 0;  // of them, those that travel from a copy of ours
  std::uint32_t credits = 0;       // notifications and messages of the peer that we hold
  std::uint32_t receives = 0;      // credits and kReservedReceives
  std::uint32_t signal_every = 0;
  std::uint32_t inline_bytes = 0;
  std::uint64_t chunk_bytes = 0;  // of one work request
  std::uint8_t reads = 0;         // and atomics: under way, each way
};

// Who wants to know when the device fails.
class AdapterUser {
 public:
  virtual ~AdapterUser() = default;
  // Called under a lock: must not call the adapter.
  virtual void device_failed(const std::string& sentence) = 0;
};

// Thread-safe; outlives the links over it, which share it.
class Adapter {
 public:
  static Result<std::shared_ptr<Adapter>> create(const FabricOptions& options);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  VerbsLibrary& library() const { return library_; }
  const FabricOptions& options() const { return options_; }
  const RdmaAddress& address() const { return address_; }
  ibv_pd* domain() const { return domain_->get(); }
  RegistrationCache& registrations() const { return *registrations_; }
  const LaneLimits& limits() const { return limits_; }
  bool has_immediate() const { return has_immediate_; }
  bool relaxed_ordering() const { return relaxed_ordering_; }
  // Whether the bytes of one write land in order in our memory.
  bool data_in_order() const { return data_in_order_; }
  // Whether this process may register so many bytes; if not, why and what to do.
  Status can_register(std::uint64_t bytes) const;
  CompletionQueue& next_queue();
  // When remove() returns the user is not called.
  void add(AdapterUser& user);
  void remove(AdapterUser& user);
  void failed(const std::string& sentence);

 private:
  Adapter(VerbsLibrary& library, const FabricOptions& options)
      : library_(library), options_(options) {}
  Status open();
  void choose_limits();
  // Makes a queue pair and looks at it.
  Status probe();

  VerbsLibrary& library_;
  const FabricOptions options_;
  const std::shared_ptr<Domain> domain_ = std::make_shared<Domain>(library_);
  RdmaAddress address_;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;
  std::unique_ptr<RegistrationCache> registrations_;
  std::atomic<std::uint32_t> next_queue_{0};
  core::Mutex users_mutex_{core::LockRank::kVerbs, 4};
  std::vector<AdapterUser*> users_ FW_GUARDED_BY(users_mutex_);
  std::string failure_ FW_GUARDED_BY(users_mutex_);  // of the device; empty while it works
  LaneLimits limits_;
  bool has_immediate_ = true;
  bool relaxed_ordering_ = false;
  bool data_in_order_ = false;
};

// What a queue pair is made of.
ibv_qp_init_attr queue_pair_attributes(const LaneLimits& limits, ibv_cq* queue);

}  // namespace farwrite::fabric::verbs
