// Connection: the two sides of one simulated channel, and the wire between them.
//
// The wire is a bag of packets. A step takes one out by chance and delays, loses, doubles or
// delivers it, so that chunks land in any order, within a write and between writes and lanes. What
// a reliable connection promises on top (numbered notifications, held back until the bytes of their
// write have landed; flushes; fenced revocations) is built here, or left out by a wrong Lowering.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "simulated/key_table.h"
#include "simulated/lane_order.h"
#include "simulated/outcomes.h"
#include "simulated/packet.h"
#include "simulated/random.h"
#include "simulated/simulated_options.h"

namespace farwrite::fabric {

inline constexpr std::uint64_t kSimulatedMaxMessageBytes = 4096;

// One fabric, as the network sees it.
struct Host {
  std::uint64_t id = 0;
  bool alive = true;
  bool partitioned = false;
  KeyTable exports;
};

// A hash over every delivery, in order: two runs with the same trace did the same.
struct Trace {
  std::uint64_t hash = 0xcbf29ce484222325;
  std::uint64_t deliveries = 0;

  void add(std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; }
};

// All methods need the network's lock.
class Connection {
 public:
  Connection(const SimulatedOptions& options, std::uint64_t id, Trace& trace);

  // Takes a side. kResourceExhausted if no doorbell is left.
  Status attach(SideIndex side, std::shared_ptr<Host> host, const AttachRequest& request);
  bool paired() const { return sides_[1].attached; }
  bool involves(const Host& host) const;

  std::uint64_t grant(SideIndex side, std::uint64_t key,
                      const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
                      std::uint64_t length);
  void revoke(SideIndex side, std::uint64_t key) { sides_[side].grants.remove(key); }
  Result<std::shared_ptr<RemoteWindow>> import(SideIndex side, const RegionDescriptor& descriptor);

  Completion post(SideIndex side, std::uint32_t lane, const Operation& operation,
                  Outcomes& outcomes);
  // Delivers up to `deliveries_per_poll` packets, whichever thread sent them.
  void run(Outcomes& outcomes);
  // Whether run() would do something.
  bool deliverable() const;

  LaneOrder& lane(SideIndex side, std::uint32_t lane) { return *sides_[side].lanes[lane]; }
  std::size_t lanes(SideIndex side) const { return sides_[side].lanes.size(); }
  LinkCounters counters(SideIndex side) const { return sides_[side].counters; }
  // Why nothing can be posted, or ok.
  Status broken(SideIndex side, std::string_view operation) const;
  void ring_all();

  // A side leaves normally: what its card has fetched still travels, the rest is cancelled.
  std::shared_ptr<ObserverDoor> end(SideIndex side, Outcomes& outcomes);
  // A host died: what is on the wire is gone.
  void kill(const Host& host, Outcomes& outcomes);

 private:
  struct Side {
    bool attached = false;
    std::shared_ptr<Host> host;
    std::string peer_name;
    std::shared_ptr<ObserverDoor> door;
    KeyTable grants;
    std::vector<std::unique_ptr<LaneOrder>> lanes;
    std::map<std::uint64_t, std::shared_ptr<Transfer>> live;  // by id, until over
    std::deque<std::shared_ptr<Transfer>> flushes;            // their packet has arrived
    Status lost_write;  // why the target refused a write; for the next flush
    StatusCode end_code = StatusCode::kOk;
    std::string end_cause;
    LinkCounters counters;
  };

  static SideIndex other(SideIndex side) { return 1 - side; }
  ErrorContext where(SideIndex side, std::string_view operation) const;

  void send_chunks(const std::shared_ptr<Transfer>& transfer, std::uint64_t length);
  void send(PacketKind kind, const std::shared_ptr<Transfer>& transfer);
  void join_head(Transfer& transfer);
  void fetch(Transfer& transfer);
  void step(Outcomes& outcomes);
  std::size_t first_chunk_of_same(std::size_t chosen) const;
  bool lose_or_double(const Packet& packet);
  void deliver(const Packet& packet, Outcomes& outcomes);
  void land(const Packet& packet, Outcomes& outcomes);
  Status copy_chunk(const Packet& packet);
  void show(const Packet& packet, Outcomes& outcomes);
  void settle(Transfer& transfer, Outcomes& outcomes);
  void finish_flushes(SideIndex side, Outcomes& outcomes);
  bool writes_under_way_before(const Side& side, std::uint64_t id) const;
  void release(SideIndex side, std::uint32_t lane);
  void finish_all(SideIndex side, StatusCode code, const std::string& cause, Outcomes& outcomes);

  const SimulatedOptions& options_;
  const std::uint64_t id_;
  Trace& trace_;
  Random random_;
  std::uint64_t last_transfer_ = 0;
  std::array<Side, 2> sides_;
  std::vector<Packet> wire_;
};

}  // namespace farwrite::fabric
