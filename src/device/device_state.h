// DeviceState: everything behind a Device.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/acceptor.h"
#include "core/counter.h"
#include "core/event_loop.h"
#include "core/fork_guard.h"
#include "core/gate.h"
#include "core/mutex.h"
#include "core/tcp_socket.h"
#include "device/channel_state.h"
#include "device/device.h"
#include "device/handshake.h"
#include "device/meetings.h"
#include "device/metrics.h"
#include "device/name_table.h"
#include "device/poller.h"
#include "device/region_state.h"
#include "device/secrets.h"
#include "fabric/fabric.h"
#include "memory/arena.h"
#include "memory/quota.h"

namespace farwrite::device {

memory::HugePages to_memory(HugePages pages);

// Why no device opens with these options, wherever it is; ok if one may.
Status check_options(const DeviceOptions& options);

// Thread-safe. Channels share it; close() ends its threads and channels, whichever thread still
// shares it.
class DeviceState final : public std::enable_shared_from_this<DeviceState> {
 public:
  // `service`: what peers learn by PeerInfo::service.
  static Result<std::shared_ptr<DeviceState>> open(const DeviceOptions& options,
                                                   std::string_view service = {});
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // The handle a user gets: the device closes when its last copy is gone.
  std::shared_ptr<DeviceState> user_handle();

  // What Device says, under the same names.
  Result<std::shared_ptr<ChannelState>> connect(const Endpoint& peer,
                                                std::chrono::nanoseconds timeout);
  Result<std::shared_ptr<ChannelState>> accept(std::chrono::nanoseconds timeout);
  Result<std::shared_ptr<RegionState>> allocate(std::uint64_t bytes, MemoryKind kind);
  Result<std::byte*> allocate_raw(std::uint64_t bytes);
  Result<std::shared_ptr<std::byte>> allocate_owned(std::uint64_t bytes);
  void free_raw(std::byte* memory) {
    // A forked child has a view of the memory, and not the allocator's locks.
    if (!fork_guard_.in_forked_child()) arena_->free(memory);
  }
  bool contains(const void* pointer) const { return arena_->contains(pointer); }
  bool contains(ByteView memory) const;
  Result<MemoryRegistration> register_memory(ByteView memory, bool writable);
  Status publish(std::string_view name, PublishedRegion published);
  Status unpublish(std::string_view name);
  DeviceStats stats() const;
  std::string metrics_text() const;
  Status close(std::chrono::nanoseconds timeout);

  const Endpoint& endpoint() const { return identity_.endpoint; }
  const DeviceUuid& uuid() const { return identity_.uuid; }
  std::uint64_t epoch() const { return identity_.epoch; }
  const std::string& service() const { return identity_.service; }

  // For its channels.
  const DeviceOptions& options() const { return options_; }
  const core::ForkGuard& fork_guard() const { return fork_guard_; }
  // For a channel that starts: inside gate_.
  core::EventLoop& loop() { return *loop_; }
  // Runs `function` on the loop, from any thread at any time; dropped once the device has closed.
  void post(std::function<void()> function);
  // Runs `function` once on the control loop, after `delay` (at least 1 ms); never if the device
  // closes before. It must not wait.
  void run_later(std::chrono::nanoseconds delay, std::function<void()> function);
  const std::shared_ptr<RegionTable>& regions() const { return regions_; }
  const NameTable& names() const { return names_; }
  const std::shared_ptr<memory::Quota>& receive_quota() const { return receive_quota_; }
  const fabric::Capabilities& capabilities(FabricKind kind) const;
  const memory::NumaPlacement& placement() const { return placement_; }  // of its segments
  // Lanes spread over the pollers round-robin.
  Poller& next_poller();
  // Tells channels apart in metrics.
  std::uint64_t next_channel_number() { return next_channel_.fetch_add(1); }
  // Lets `gpu` copy at full speed if `local` is send memory.
  void pin(const gpu::Gpu& gpu, const void* local);
  // Where `memory` lies for a peer on `fabric`: the key of its one segment, and the offset in it.
  Status find_lendable(ByteView memory, FabricKind fabric, std::uint64_t& key,
                       std::uint64_t& offset);
  RegionDescriptor new_descriptor(Access access, std::uint64_t offset, std::uint64_t length);
  // `landing`: of the channel where it is to be published, null for every peer.
  Status check_publishable(const PublishedRegion& published, const LandingMemory* landing) const;
  // Whether this is the loop's or a poller's thread.
  bool on_own_thread() const;
  void count_registration() { registrations_.add(); }
  void forget(ChannelState& channel);

 private:
  DeviceState(const DeviceOptions& options, std::string_view service);

  Status start();
  Status check_secrets() const;
  Status make_arena();
  // The keys of the fabrics that reach the segment; an error if none does.
  Result<std::vector<FabricKey>> register_segment(const std::shared_ptr<memory::Segment>& segment);
  // What this device is over a connection to an address of the loopback, or to another one.
  // kUnauthenticated if it must not be reached, or reach others, that way.
  Result<LocalIdentity> identity_at(bool loopback, const std::string& operation) const;
  void on_incoming(core::UniqueFd socket);
  void meet(Meeting& meeting);
  void shake_hands(Meeting& meeting, std::shared_ptr<ChannelState> channel);
  // Refuses a connection: logs the reason, and sends it as far as the peer takes plain words.
  void turn_away(core::ByteStream& stream, const Status& reason);
  void tell_why(core::ByteStream& stream, const Status& reason) const;
  // Whether on_own_thread(), or inside a channel's callback: closing waits for those.
  bool inside_callback() const;
  // connect(), until the deadline or until this device closes.
  Result<std::shared_ptr<ChannelState>> meet_at(const Endpoint& peer, core::Deadline deadline);
  // Sets `heard` to false if what listens there takes the connection and sends no answer.
  Result<std::shared_ptr<ChannelState>> meet_once_at(const Endpoint& peer, core::Deadline deadline,
                                                     bool& heard);
  // `refusal`: why the channel is given up, if it is so at once.
  Result<std::shared_ptr<ChannelState>> go_live(std::shared_ptr<ChannelState> channel,
                                                HandshakeResult handshake,
                                                const std::string& peer_name,
                                                std::unique_ptr<core::ByteStream> stream,
                                                Status refusal = Status());
  void tick(std::chrono::nanoseconds period);
  // The steps of close() (device_close.cc); those that say false or fail may be repeated.
  Status stop(core::Deadline deadline);
  bool loop_comes_round(core::Deadline deadline);
  void drop_everything();
  std::vector<std::shared_ptr<ChannelState>> channels() const;
  Status usable(std::string_view operation) const;
  void remember_locked(FabricKind fabric, const ChannelStats& last) FW_REQUIRES(mutex_);

  const DeviceOptions options_;
  const core::ForkGuard fork_guard_;
  core::Gate gate_;  // calls that need the loop or the fabrics
  const std::shared_ptr<RegionTable> regions_ = std::make_shared<RegionTable>();
  const std::shared_ptr<memory::Quota> receive_quota_;
  memory::NumaPlacement placement_;
  std::shared_ptr<memory::Arena> arena_;
  core::SharedMutex keys_mutex_{core::LockRank::kDeviceTables};
  std::map<std::uint32_t, std::vector<FabricKey>> segment_keys_ FW_GUARDED_BY(keys_mutex_);

  LocalIdentity identity_;  // without a token: see identity_at()
  const Secrets secrets_;
  core::Listener listener_;
  std::unique_ptr<core::EventLoop> loop_;
  std::unique_ptr<core::Acceptor> acceptor_;
  core::EventLoop::TimerId timer_ = 0;
  std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;
  std::vector<std::unique_ptr<Poller>> pollers_;
  std::atomic<std::uint32_t> next_poller_{0};
  std::atomic<std::uint64_t> next_channel_{1};
  std::chrono::nanoseconds last_tick_{0};  // the loop's
  NameTable names_;
  Meetings meetings_;

  mutable core::Mutex mutex_{core::LockRank::kDevice};
  core::CondVar changed_;
  std::vector<std::shared_ptr<ChannelState>> channels_ FW_GUARDED_BY(mutex_);
  // Channels that finished while the device closes: destroyed when the loop has stopped.
  std::vector<std::shared_ptr<ChannelState>> finished_ FW_GUARDED_BY(mutex_);
  core::Gate loop_gate_;  // calls that need the loop after their channel has closed
  std::vector<std::string> choices_ FW_GUARDED_BY(mutex_);
  std::vector<GoneChannels> gone_ FW_GUARDED_BY(mutex_);
  std::atomic<bool> closing_{false};             // set under mutex_
  bool settling_ FW_GUARDED_BY(mutex_) = false;  // a thread is in stop() or drop_everything()
  bool closed_ FW_GUARDED_BY(mutex_) = false;
  Status close_status_;  // that thread's until closed_

  AdapterStats closed_adapters_
      FW_GUARDED_BY(mutex_);  // under mutex_: the last counts of fabrics that are gone

  std::atomic<bool> warned_of_gpus_{false};
  core::Counter registrations_, channels_opened_, handshakes_refused_;
};

}  // namespace farwrite::device
