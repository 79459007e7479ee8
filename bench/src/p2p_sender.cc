// The sender's loops. The sender owns the data. For kRead it waits while the receiver reads.
#include <array>
#include <vector>

#include "loops.h"
#include "stamps.h"

namespace farwrite::bench {
namespace {

// The places of this process's payloads, and the payloads of this phase.
class Payloads {
 public:
  Payloads(Peer& peer, const Phase& phase, const SlotMap& map)
      : phase_(phase), map_(map), uses_(map.slots), used_places_(map.slots) {
    if (phase.op == Op::kNotify) return;
    own_places_ = phase.op == Op::kWrite;
    base_ = own_places_ ? peer.side() : phase.limit ? peer.stage().pool() : peer.pool();
  }

  // Prepares a new payload for `slot` and returns it. The source of a write rotates over the places
  // of `lane`, so that two threads never prepare the same place.
  const std::byte* next(std::uint64_t slot, std::uint32_t lane) {
    if (base_ == nullptr) return nullptr;
    std::uint64_t place = slot;
    if (own_places_) {
      std::uint64_t& turn = turns_[lane].value;
      place = turn * phase_.lanes + lane;
      if (++turn == map_.side_slots / phase_.lanes) turn = 0;
    }
    used_places_[place] = 1;
    std::byte* const data = base_ + map_.offset(place);
    const std::uint64_t high = PayloadNumber::high(phase_, slot, uses_[slot]++);
    if (phase_.kind == Kind::kVerify) {
      stamp(data, phase_.size, high);
    } else {
      put_word(data, high | place);
    }
    return data;
  }

  // Writes the payload of a ping-pong anew, always in the same place.
  const std::byte* numbered(std::uint64_t number) {
    if (base_ == nullptr) return nullptr;
    used_places_[0] = 1;
    fill_ramp(base_, phase_.size, 0);
    put_word(base_, number);
    return base_;
  }

  // Restores the ramp for the next phase.
  void restore() {
    if (base_ == nullptr) return;
    for (std::uint64_t place = 0; place < map_.slots; ++place) {
      if (used_places_[place] == 0) continue;
      const std::uint64_t at = map_.offset(place);
      fill_ramp(base_ + at, phase_.kind == Kind::kVerify ? phase_.size : 8, at / 8);
    }
  }

 private:
  struct alignas(64) Turn {
    std::uint64_t value = 0;
  };

  const Phase& phase_;
  const SlotMap& map_;
  std::vector<std::uint32_t> uses_;        // by slot
  std::vector<std::uint8_t> used_places_;  // by place
  std::array<Turn, kMaxLanes> turns_;      // by lane
  std::byte* base_ = nullptr;
  bool own_places_ = false;
};

// Sends the payload of `slot` by this operation.
template <typename Path>
Status hand_over(Path& path, const Phase& phase, std::uint32_t lane, std::uint32_t slot,
                 const std::byte* payload) {
  return phase.op == Op::kWrite ? path.put(lane, slot, payload) : path.signal(lane, slot);
}

// Measures half of a round trip, always in the same place. The caches are warm, as in the figures
// of other libraries. Each payload is written anew, outside its time: a receiver that copies from
// the sender's memory would else find it in its own cache.
template <typename Path>
Status ping_pong(Peer& peer, Path& path, const Phase& phase, Payloads& payloads, Outcome& outcome) {
  outcome.samples_us.reserve(phase.transfers);
  const Meter meter(peer.device(), peer.channel());
  for (std::uint64_t i = 0; i < phase.transfers; ++i) {
    const std::byte* const payload = payloads.numbered(i);
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

// Sends one transfer at a time, cold; the receiver measures the time.
template <typename Path>
Status one_way(Peer& peer, Path& path, const Phase& phase, const SlotMap& map, Payloads& payloads,
               Outcome& outcome) {
  const Meter meter(peer.device(), peer.channel());
  for (std::uint64_t i = 0; i < phase.transfers; ++i) {
    const auto slot = static_cast<std::uint32_t>(i * phase.lanes % map.slots);
    const std::byte* const payload = payloads.next(slot, 0);
    peer.stage().began(i) = now_ns();
    FARWRITE_RETURN_IF_ERROR(hand_over(path, phase, 0, slot, payload));
    auto answer = path.take(0);
    if (!answer.ok()) return answer.status();
  }
  meter.stop(outcome);
  return Status();
}

// Keeps `window` transfers under way on this lane. A slot is used again only after the receiver has
// returned it, and after all other free slots, so that the transfers rotate over the whole pool. A
// thread may receive the slots of another thread's lane, and uses them in the same way.
template <typename Path>
Status stream_lane(Path& path, const Phase& phase, const SlotMap& map, std::uint32_t lane,
                   Payloads& payloads) {
  const std::uint64_t share = phase.transfers / phase.lanes;
  std::vector<std::uint32_t> free_slots(map.slots / phase.lanes);
  for (std::size_t i = 0; i < free_slots.size(); ++i) {
    free_slots[i] = static_cast<std::uint32_t>(i * phase.lanes + lane);
  }
  std::size_t next = 0;      // the slot that has been free longest
  std::size_t returned = 0;  // the place of the next returned slot
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
    FARWRITE_RETURN_IF_ERROR(hand_over(path, phase, lane, slot, payloads.next(slot, lane)));
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
    // The receiver reads slots 0, 1, 2 ... once each, after the first meeting.
    for (std::uint64_t slot = 0; slot < std::min(phase.transfers, map.slots); ++slot) {
      payloads.next(slot, 0);
    }
  }
  auto outcome = run_loop(peer, phase, [&](auto& path, const SlotMap&, Outcome& out) -> Status {
    if (phase.op == Op::kRead) {
      const Meter meter(peer.device(), peer.channel());
      FARWRITE_RETURN_IF_ERROR(peer.stage().meet());
      meter.stop(out);
      return Status();
    }
    if (phase.kind == Kind::kLatency) {
      return times_one_way(phase) ? one_way(peer, path, phase, map, payloads, out)
                                  : ping_pong(peer, path, phase, payloads, out);
    }
    const Meter meter(peer.device(), peer.channel());
    FARWRITE_RETURN_IF_ERROR(on_every_lane(peer.stage(), phase.lanes, [&](std::uint32_t lane) {
      return stream_lane(path, phase, map, lane, payloads);
    }));
    meter.stop(out);
    return Status();
  });
  payloads.restore();
  return outcome;
}

}  // namespace farwrite::bench
