// The receiver's loops. The receiver takes a payload, reads it, checks it, and returns the slot.
// For kRead it does all the work.
#include <atomic>
#include <vector>

#include "loops.h"
#include "stamps.h"

namespace farwrite::bench {
namespace {

// Computes the expected payload of each slot.
class Checker {
 public:
  Checker(const Phase& phase, const SlotMap& map) : phase_(phase), map_(map), uses_(map.slots) {}

  // Reads `data` as far as this phase requires, and counts a wrong payload.
  void check(std::uint64_t slot, const std::byte* data) {
    const std::uint64_t use = uses_[slot]++;
    if (!matches(data, slot, use)) bad_.fetch_add(1, std::memory_order_relaxed);
  }
  // The same for a ping-pong, whose payloads are numbered one by one.
  void check_numbered(const std::byte* data, std::uint64_t number) {
    if (sum_words(data, phase_.size) != numbered_sum(0, phase_.size / 8, number)) ++bad_;
  }

  std::uint64_t bad() const { return bad_.load(); }

 private:
  bool matches(const std::byte* data, std::uint64_t slot, std::uint64_t use) const {
    const std::uint64_t high = PayloadNumber::high(phase_, slot, use);
    if (phase_.kind == Kind::kVerify) return verify_stamps(data, phase_.size, high);
    const std::uint64_t words = phase_.size / 8;
    if (phase_.op == Op::kRead) {
      return !phase_.touch ||
             sum_words(data, phase_.size) == ramp_sum(map_.offset(slot) / 8, words);
    }
    const std::uint64_t head = get_word(data);
    const std::uint64_t place = PayloadNumber::place(head);
    if ((head ^ place) != high) return false;
    // An alias has arrived when its first word can be read.
    const bool look_only = phase_.kind == Kind::kLatency && phase_.op == Op::kAlias;
    if (!phase_.touch || look_only) return true;
    return sum_words(data, phase_.size) == numbered_sum(map_.offset(place) / 8, words, head);
  }

  const Phase& phase_;
  const SlotMap& map_;
  std::vector<std::uint32_t> uses_;
  std::atomic<std::uint64_t> bad_{0};
};

template <typename Path>
Status answer_latency(Peer& peer, Path& path, const Phase& phase, Checker& checker,
                      Outcome& outcome) {
  std::vector<std::int64_t> ended(times_one_way(phase) ? phase.transfers : 0);
  const Meter meter(peer.device(), peer.channel());
  for (std::uint64_t i = 0; i < phase.transfers; ++i) {
    if (echoes(phase)) {
      // While the sender looks at the echo before, and writes its own payload.
      fill_ramp(peer.echo(), phase.size, 0);
      put_word(peer.echo(), i);
    }
    auto arrival = path.take(0);
    if (!arrival.ok()) return arrival.status();
    if (phase.op != Op::kNotify) {
      auto data = path.view(arrival->slot);
      if (!data.ok()) return data.status();
      if (echoes(phase)) {
        checker.check_numbered(data.value(), i);
      } else {
        checker.check(arrival->slot, data.value());
      }
    }
    if (!ended.empty()) ended[i] = now_ns();
    if (echoes(phase)) {
      FARWRITE_RETURN_IF_ERROR(path.put(0, 0, peer.echo()));
    } else {
      FARWRITE_RETURN_IF_ERROR(path.signal(0, arrival->slot));
    }
  }
  meter.stop(outcome);
  // Every transfer synchronized with this process, so it can read the sender's times.
  for (std::size_t i = 0; i < ended.size(); ++i) {
    outcome.samples_us.push_back(static_cast<double>(ended[i] - peer.stage().began(i)) / 1e3);
  }
  if (echoes(phase)) fill_ramp(peer.echo(), 8, 0);
  return Status();
}

template <typename Path>
Status drain_lane(Path& path, const Phase& phase, std::uint32_t lane, Checker& checker) {
  for (std::uint64_t i = 0; i < phase.transfers / phase.lanes; ++i) {
    auto arrival = path.take(lane);
    if (!arrival.ok()) return arrival.status();
    if (phase.op != Op::kNotify) {
      auto data = path.view(arrival->slot);
      if (!data.ok()) return data.status();
      checker.check(arrival->slot, data.value());
    }
    FARWRITE_RETURN_IF_ERROR(path.signal(arrival->lane, arrival->slot));
  }
  return Status();
}

template <typename Path>
Status fetch_lane(Peer& peer, Path& path, const Phase& phase, const SlotMap& map,
                  std::uint32_t lane, Checker& checker, std::vector<double>* samples) {
  const std::uint64_t lane_slots = map.slots / phase.lanes;
  // Small transfers, one at a time, use the same warm place, as other libraries do.
  const bool warm = samples != nullptr && phase.size < kOneWayBytes;
  for (std::uint64_t i = 0; i < phase.transfers / phase.lanes; ++i) {
    const auto slot = static_cast<std::uint32_t>(warm ? 0 : i % lane_slots * phase.lanes + lane);
    std::byte* const destination = peer.side() + map.side_offset(slot);
    const std::int64_t start = samples != nullptr ? now_ns() : 0;
    FARWRITE_RETURN_IF_ERROR(path.fetch(lane, slot, destination));
    if (samples != nullptr) {
      samples->push_back(static_cast<double>(now_ns() - start) / 1e3);
    }
    checker.check(slot, destination);
  }
  return Status();
}

}  // namespace

Result<Outcome> run_receiver(Peer& peer, const Phase& phase) {
  return run_loop(peer, phase, [&](auto& path, const SlotMap& map, Outcome& out) -> Status {
    Checker checker(phase, map);
    const bool latency = phase.kind == Kind::kLatency;
    if (phase.op == Op::kRead) {
      const Meter meter(peer.device(), peer.channel());
      if (latency) out.samples_us.reserve(phase.transfers);
      FARWRITE_RETURN_IF_ERROR(on_every_lane(peer.stage(), phase.lanes, [&](std::uint32_t lane) {
        return fetch_lane(peer, path, phase, map, lane, checker,
                          latency ? &out.samples_us : nullptr);
      }));
      meter.stop(out);
      FARWRITE_RETURN_IF_ERROR(peer.stage().meet());
    } else if (latency) {
      FARWRITE_RETURN_IF_ERROR(answer_latency(peer, path, phase, checker, out));
    } else {
      const Meter meter(peer.device(), peer.channel());
      FARWRITE_RETURN_IF_ERROR(on_every_lane(peer.stage(), phase.lanes, [&](std::uint32_t lane) {
        return drain_lane(path, phase, lane, checker);
      }));
      meter.stop(out);
    }
    out.bad = checker.bad();
    return Status();
  });
}

}  // namespace farwrite::bench
