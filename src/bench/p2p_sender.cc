// The sender's loops: it owns the data. For kRead it stands by while the receiver fetches.
#include <vector>

#include "bench/loops.h"
#include "bench/stamps.h"

namespace farwrite::bench {
namespace {

// Where this process keeps the payload of each slot, and what it has put there in this phase.
class Payloads {
 public:
  Payloads(Peer& peer, const Phase& phase, const SlotMap& map)
      : phase_(phase), map_(map), uses_(map.slots) {
    if (phase.op == Op::kNotify) return;
    halved_ = phase.op == Op::kWrite;
    base_ = halved_ ? peer.side() : phase.limit ? peer.stage().pool() : peer.pool();
  }

  // Gives slot's payload a content of its own and returns it.
  const std::byte* next(std::uint64_t slot) {
    if (base_ == nullptr) return nullptr;
    std::byte* const data = base_ + offset(slot);
    const std::uint64_t number = transfer_number(phase_, slot, uses_[slot]++);
    if (phase_.kind == Kind::kVerify) {
      stamp(data, phase_.size, number);
    } else {
      put_word(data, number);
    }
    return data;
  }

  // Puts the ramp back for the next phase.
  void restore() {
    if (base_ == nullptr) return;
    for (std::uint64_t slot = 0; slot < map_.slots; ++slot) {
      if (uses_[slot] == 0) continue;
      const std::uint64_t at = offset(slot);
      fill_ramp(base_ + at, phase_.kind == Kind::kVerify ? phase_.size : 8, at / 8);
    }
  }

 private:
  std::uint64_t offset(std::uint64_t slot) const {
    return halved_ ? map_.side_offset(slot) : map_.offset(slot);
  }

  const Phase& phase_;
  const SlotMap& map_;
  std::vector<std::uint32_t> uses_;
  std::byte* base_ = nullptr;
  bool halved_ = false;
};

// Hands slot's payload over in the way of this operation.
template <typename Path>
Status hand_over(Path& path, const Phase& phase, std::uint32_t lane, std::uint32_t slot,
                 const std::byte* payload) {
  return phase.op == Op::kWrite ? path.put(lane, slot, payload) : path.signal(lane, slot);
}

// Half of a round trip, always in the same place: the caches are warm, as in every peer's figure.
template <typename Path>
Status ping_pong(Peer& peer, Path& path, const Phase& phase, Payloads& payloads, Outcome& outcome) {
  outcome.samples_us.reserve(phase.transfers);
  const Meter meter(peer, peer.channel());
  for (std::uint64_t i = 0; i < phase.transfers; ++i) {
    const std::byte* const payload = payloads.next(0);
    const std::int64_t start = now_ns();
    FARWRITE_RETURN_IF_ERROR(hand_over(path, phase, 0, 0, payload));
    auto answer = path.take(0);
    if (!answer.ok()) return answer.status();
    if (echoes(phase)) {
      auto echo = path.view(0);
      if (!echo.ok()) return echo.status();
      const std::uint64_t words = phase.size / 8;
      if (sum_words(echo.value(), phase.size) != numbered_sum(0, words, i)) ++outcome.bad;
    }
    outcome.samples_us.push_back(static_cast<double>(now_ns() - start) / 2e3);
  }
  meter.stop(outcome);
  return Status();
}

// One at a time, cold; the receiver takes the time.
template <typename Path>
Status one_way(Peer& peer, Path& path, const Phase& phase, const SlotMap& map, Payloads& payloads,
               Outcome& outcome) {
  const Meter meter(peer, peer.channel());
  for (std::uint64_t i = 0; i < phase.transfers; ++i) {
    const auto slot = static_cast<std::uint32_t>(i * phase.lanes % map.slots);
    const std::byte* const payload = payloads.next(slot);
    peer.stage().began(i) = now_ns();
    FARWRITE_RETURN_IF_ERROR(hand_over(path, phase, 0, slot, payload));
    auto answer = path.take(0);
    if (!answer.ok()) return answer.status();
  }
  meter.stop(outcome);
  return Status();
}

// `window` transfers under way on this lane. A slot is used again only when the receiver has given
// it back, and then last, so that the whole pool is used in turn. A thread may get the slots of
// another thread's lane back: they are as good.
template <typename Path>
Status stream_lane(Path& path, const Phase& phase, const SlotMap& map, std::uint32_t lane,
                   Payloads& payloads) {
  const std::uint64_t share = phase.transfers / phase.lanes;
  std::vector<std::uint32_t> free_slots(map.slots / phase.lanes);
  for (std::size_t i = 0; i < free_slots.size(); ++i) {
    free_slots[i] = static_cast<std::uint32_t>(i * phase.lanes + lane);
  }
  std::size_t next = 0;      // the slot that rested longest
  std::size_t returned = 0;  // where the next one back is kept
  std::uint32_t under_way = 0;
  const auto take_back = [&]() -> Status {
    auto answer = path.take(lane);
    if (!answer.ok()) return answer.status();
    free_slots[returned] = answer->slot;
    if (++returned == free_slots.size()) returned = 0;
    --under_way;
    return Status();
  };
  for (std::uint64_t i = 0; i < share; ++i) {
    if (under_way == phase.window) FARWRITE_RETURN_IF_ERROR(take_back());
    const std::uint32_t slot = free_slots[next];
    if (++next == free_slots.size()) next = 0;
    FARWRITE_RETURN_IF_ERROR(hand_over(path, phase, lane, slot, payloads.next(slot)));
    ++under_way;
  }
  while (under_way > 0) FARWRITE_RETURN_IF_ERROR(take_back());
  return Status();
}

}  // namespace

Result<Outcome> run_sender(Peer& peer, const Phase& phase) {
  const SlotMap map(phase, peer.options().pool_bytes, peer.side_bytes());
  Payloads payloads(peer, phase, map);
  if (phase.op == Op::kRead && phase.kind == Kind::kVerify) {
    // The receiver fetches slots 0, 1, 2 ... once each, after the first meeting.
    for (std::uint64_t slot = 0; slot < std::min(phase.transfers, map.slots); ++slot) {
      payloads.next(slot);
    }
  }
  auto outcome = run_loop(peer, phase, [&](auto& path, const SlotMap&, Outcome& out) -> Status {
    if (phase.op == Op::kRead) {
      const Meter meter(peer, peer.channel());
      FARWRITE_RETURN_IF_ERROR(peer.stage().meet());
      meter.stop(out);
      return Status();
    }
    if (phase.kind == Kind::kLatency) {
      return times_one_way(phase) ? one_way(peer, path, phase, map, payloads, out)
                                  : ping_pong(peer, path, phase, payloads, out);
    }
    const Meter meter(peer, peer.channel());
    FARWRITE_RETURN_IF_ERROR(on_every_lane(
        peer.stage(), phase.lanes,
        [&](std::uint32_t lane) { return stream_lane(path, phase, map, lane, payloads); }));
    meter.stop(out);
    return Status();
  });
  payloads.restore();
  return outcome;
}

}  // namespace farwrite::bench
