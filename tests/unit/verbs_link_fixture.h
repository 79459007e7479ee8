// Links of the verbs fabric over software RNICs, face to face and polled by the test's own thread.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/event_loop.h"
#include "core/log.h"
#include "fabric/verbs/verbs_fabric.h"
#include "verbs_double/software_rnic.h"

namespace farwrite::fabric::verbs {

using verbs_double::Call;
using verbs_double::RnicOptions;
using verbs_double::SoftwareRnic;
using verbs_double::Transport;
using verbs_double::WireOptions;

inline constexpr std::chrono::seconds kPatience{30};
inline constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;
inline constexpr std::uint64_t kRegion = 1;  // the id of what Side::open() grants

// Where a link delivers and whom it tells.
struct Recorder final : EventSink, LinkObserver {
  bool has_room() const override { return room > 0; }
  void on_notification(Notification&& notification) override {
    --room;
    if (at_notification) at_notification(notification);
    taken.push_back(std::move(notification));
  }
  void on_record(Notification&& record) override { records.push_back(std::move(record)); }
  void on_peer_dead(const Status& reason) override {
    dead = reason;
    ++deaths;
    taken_at_death = taken.size();
  }
  void on_link_error(const Status& reason) override {
    broken = reason;
    ++errors;
  }
  void on_revoked() override { ++revoked; }

  int room = 1 << 30;
  std::function<void(const Notification&)> at_notification;
  std::vector<Notification> taken, records;
  Status dead, broken;
  int deaths = 0, errors = 0, revoked = 0;
  std::size_t taken_at_death = 0;
};

// One process: a loop and a fabric over the double.
struct Host {
  explicit Host(SoftwareRnic& rnic, FabricOptions options = {})
      : loop(core::EventLoop::start("verbs-test").value()) {
    options.library = &rnic;
    auto created = VerbsFabric::create(*loop, options);
    EXPECT_TRUE(created.ok()) << created.status().message();
    if (created.ok()) fabric = *std::move(created);
  }

  std::unique_ptr<core::EventLoop> loop;
  std::unique_ptr<Fabric> fabric;
};

inline AttachRequest attach_request(bool connecting, const Fabric& accepting, std::uint32_t lanes,
                                    std::uint8_t secret = 1) {
  AttachRequest request;
  request.connecting = connecting;
  request.secret.fill(static_cast<std::byte>(secret));
  request.peer_name = connecting ? "the accepting side" : "the connecting side";
  request.peer_address = accepting.address();
  request.lanes = lanes;
  request.deadline = core::Deadline::after(kPatience);
  return request;
}

// One end of a link, and memory that its peer may write (`landing`) or read (`shown`).
struct Side {
  static std::shared_ptr<memory::Segment> segment(memory::SegmentUse use) {
    memory::SegmentOptions options;
    options.bytes = kSegment;
    options.use = use;
    options.huge_pages = memory::HugePages::kOff;
    return memory::Segment::create(options).value();
  }
  void open(Fabric& fabric, std::unique_ptr<Link> made) {
    link = std::move(made);
    landing = segment(memory::SegmentUse::kLanding);
    shown = segment(memory::SegmentUse::kExport);
    std::memset(landing->base(), 0, kSegment);
    std::memset(shown->base(), 0x5a, kSegment);
    shown_key = fabric.register_segment(shown).value();
    landing_key = grant(kRegion);
  }
  std::uint64_t grant(std::uint64_t region_id) {
    return link->grant(landing, 0, kSegment, region_id).value();
  }
  // The peer's view of our memory.
  Result<std::shared_ptr<RemoteWindow>> view(Side& peer, std::uint64_t key, Access access,
                                             std::uint64_t region_id = kRegion) const {
    RegionDescriptor descriptor;
    descriptor.region_id = region_id;
    descriptor.length = kSegment;
    descriptor.access = access;
    descriptor.keys.push_back({FabricKind::kVerbs, key});
    return peer.link->import(descriptor, core::Deadline::never());
  }
  Completion write(ByteView source, std::uint64_t offset = 0) {
    return link->lane(0).post(write_operation(source, offset));
  }
  Operation write_operation(ByteView source, std::uint64_t offset) const {
    Operation operation;
    operation.source = source;
    operation.offset = offset;
    operation.window = target;
    return operation;
  }
  Completion write_with_notify(ByteView source, std::uint64_t offset, std::uint32_t tag,
                               std::uint32_t lane = 0) {
    Operation operation = write_operation(source, offset);
    operation.notify = true;
    operation.tag = tag;
    return link->lane(lane).post(operation);
  }
  Completion read(MutableByteView destination, std::uint64_t offset = 0, std::uint32_t lane = 0) {
    Operation operation;
    operation.kind = OperationKind::kRead;
    operation.destination = destination;
    operation.offset = offset;
    operation.window = source;
    return link->lane(lane).post(operation);
  }
  Completion tell(OperationKind kind, std::uint32_t tag = 0, std::uint32_t lane = 0,
                  ByteView message = {}) {
    Operation operation;
    operation.kind = kind;
    operation.tag = tag;
    operation.source = message;
    return link->lane(lane).post(operation);
  }
  Completion notify(std::uint32_t tag, std::uint32_t lane = 0) {
    return tell(OperationKind::kNotify, tag, lane);
  }
  Completion flush() { return tell(OperationKind::kFlush); }
  void poll() {
    for (std::uint32_t lane = 0; link != nullptr && lane < lanes; ++lane) {
      progress = link->lane(lane).poll(recorder);
    }
  }

  std::uint32_t lanes = 1;
  std::shared_ptr<memory::Segment> landing, shown;
  std::uint64_t shown_key = 0, landing_key = 0;
  std::shared_ptr<RemoteWindow> target, source;  // of the peer's memory
  Recorder recorder;
  Progress progress;  // of the last lane's last poll
  std::unique_ptr<Link> link;
};

// Bytes that differ along the way, none of them 0.
inline std::vector<std::byte> pattern(std::size_t count, std::uint32_t seed = 1) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((seed * 37 + i + i / 251 * 7) % 255 + 1);
  }
  return bytes;
}

inline ByteView view_of(const std::vector<std::byte>& bytes) {
  return {bytes.data(), bytes.size()};
}

// Both ends of a link. `a` connects, `b` accepts.
class VerbsPair : public testing::Test {
 protected:
  VerbsPair() {
    if (std::getenv("FARWRITE_LOG") == nullptr) core::set_log_level(core::LogLevel::kOff);
  }
  ~VerbsPair() override { close(); }

  // Both hosts on one double, or on two.
  void make(const FabricOptions& options = {}, std::uint32_t lanes = 1,
            const RnicOptions& device = {}, const WireOptions& wire = {}) {
    rnic_ = std::make_unique<SoftwareRnic>(device, wire);
    make_hosts(*rnic_, *rnic_, options, options, lanes);
  }
  void make_two(const RnicOptions& device_a, const RnicOptions& device_b,
                const FabricOptions& options_a = {}, const FabricOptions& options_b = {},
                std::uint32_t lanes = 1, const WireOptions& wire = {}) {
    const auto network = SoftwareRnic::make_network();
    rnic_ = std::make_unique<SoftwareRnic>(device_a, wire, network);
    rnic_b_ = std::make_unique<SoftwareRnic>(device_b, wire, network);
    make_hosts(*rnic_, *rnic_b_, options_a, options_b, lanes);
  }
  void make_hosts(SoftwareRnic& one, SoftwareRnic& other, const FabricOptions& options_a,
                  const FabricOptions& options_b, std::uint32_t lanes) {
    host_a_ = std::make_unique<Host>(one, options_a);
    host_b_ = std::make_unique<Host>(other, options_b);
    connect(a_, b_, lanes);
  }
  void connect(Side& from, Side& to, std::uint32_t lanes, std::uint8_t secret = 1) {
    from.lanes = to.lanes = lanes;
    auto accepting = attach_request(false, *host_b_->fabric, lanes, secret);
    auto connecting = attach_request(true, *host_b_->fabric, lanes, secret);
    accepting.observer = &to.recorder;
    connecting.observer = &from.recorder;
    auto accepted =
        std::async(std::launch::async, [&] { return host_b_->fabric->attach(accepting); });
    auto connected = host_a_->fabric->attach(connecting);
    auto other = accepted.get();
    ASSERT_TRUE(connected.ok()) << connected.status().message();
    ASSERT_TRUE(other.ok()) << other.status().message();
    from.open(*host_a_->fabric, *std::move(connected));
    to.open(*host_b_->fabric, *std::move(other));
    from.target = to.view(from, to.landing_key, Access::kWrite).value();
    from.source = to.view(from, to.shown_key, Access::kRead).value();
    to.target = from.view(to, from.landing_key, Access::kWrite).value();
    to.source = from.view(to, from.shown_key, Access::kRead).value();
  }

  // Polls both ends until it holds.
  bool until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      a_.poll();
      b_.poll();
    }
    return true;
  }
  bool settled(const Completion& completion) {
    return until([&] { return completion.settled(); });
  }
  // The outcome, once it is known.
  Status outcome(const Completion& completion) {
    EXPECT_TRUE(until([&] { return completion.done(); }));
    return completion.wait(std::chrono::seconds(0));
  }
  void expect_ok(const Completion& completion) {
    const Status status = outcome(completion);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  static bool holds(const std::byte* data, const std::vector<std::byte>& expected) {
    return std::memcmp(data, expected.data(), expected.size()) == 0;
  }

  void close() {
    a_.link.reset();
    b_.link.reset();
    host_a_.reset();
    host_b_.reset();
    for (const auto* rnic : {&rnic_, &rnic_b_}) {
      if (*rnic == nullptr) continue;
      EXPECT_THAT((*rnic)->complaints(), testing::IsEmpty());
      EXPECT_THAT((*rnic)->leaks(), testing::IsEmpty());
      EXPECT_EQ((*rnic)->rnr_count(), 0U) << "a message met no receive";
    }
  }

  std::unique_ptr<SoftwareRnic> rnic_, rnic_b_;  // of a and, if it has one of its own, of b
  std::unique_ptr<Host> host_a_, host_b_;
  Side a_, b_;
};

}  // namespace farwrite::fabric::verbs
