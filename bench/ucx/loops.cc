#include <algorithm>
#include <deque>
#include <vector>

#include "clock.h"
#include "peer.h"
#include "phase.h"
#include "stamps.h"

namespace farwrite::bench::ucx {
namespace {

constexpr std::uint64_t kDataTag = std::uint64_t{1} << 40, kAnswerTag = std::uint64_t{2} << 40;

Phase phase_of(const Order& order) {
  Phase phase;
  phase.size = order.size;
  return phase;
}

// Transfer i uses place i of the receiver's pool and place i of the sender's source, both in
// rotation; its first word is its number. A ping-pong stays in place 0.
struct Places {
  Places(const Order& order, std::uint64_t pool_bytes)
      : map(phase_of(order), pool_bytes, pool_bytes / 2),
        words(order.size / 8),
        first(std::uint64_t{order.seed} << 32) {}

  std::uint64_t number(std::uint64_t i) const { return first | i; }
  std::uint64_t target(std::uint64_t i) const { return map.offset(i % map.slots); }
  std::uint64_t source(std::uint64_t i) const { return map.side_offset(i % map.side_slots); }
  // The sum of all words of transfer i. The source is a ramp but for its first word.
  std::uint64_t sum(std::uint64_t i) const { return numbered_sum(source(i) / 8, words, number(i)); }

  SlotMap map;
  std::uint64_t words;
  std::uint64_t first;
};

// One side of the loops of one order.
class Loop {
 public:
  Loop(Peer& peer, const Order& order, Figures& figures)
      : peer_(peer),
        order_(order),
        figures_(figures),
        places_(order, peer.data_bytes() * (peer.receives() ? 1 : 2)) {}

  void receive() {
    if (echoes()) return answer_echoes();
    std::vector<std::int64_t> ended(order_.latency ? order_.transfers : 0);
    for (std::uint64_t i = 0; i < order_.window && i < order_.transfers; ++i) expect(i);
    for (std::uint64_t i = 0; i < order_.transfers; ++i) {
      take_data();
      const std::byte* const data = peer_.data() + places_.target(i);
      check(data, i);
      if (!ended.empty()) ended[i] = now_ns();
      if (i + order_.window < order_.transfers) expect(i + order_.window);
      answer(i);
    }
    for (std::size_t i = 0; i < ended.size(); ++i) {
      figures_.samples_us[i] = static_cast<double>(ended[i] - peer_.shared().began[i]) / 1e3;
    }
    figures_.samples = static_cast<std::uint32_t>(ended.size());
  }

  void send() {
    const Clock::time_point start = Clock::now();
    if (echoes()) {
      send_echoes();
    } else {
      stream();
    }
    figures_.seconds = seconds_since(start);
    restore();
  }

 private:
  bool tagged() const { return order_.way == Way::kTag; }
  bool echoes() const { return order_.latency && order_.size < kOneWayBytes; }

  const std::byte* prepare(std::uint64_t i) {
    std::byte* const data = peer_.data() + places_.source(i);
    put_word(data, places_.number(i));
    return data;
  }
  void restore() {
    const std::uint64_t used = std::min(order_.transfers, places_.map.side_slots);
    for (std::uint64_t i = 0; i < used; ++i) {
      fill_ramp(peer_.data() + places_.source(i), 8, places_.source(i) / 8);
    }
  }
  void check(const std::byte* data, std::uint64_t i) {
    if (sum_words(data, order_.size) != places_.sum(i)) ++figures_.bad;
  }

  // Receives of the data, posted ahead; a put needs none.
  void expect(std::uint64_t i) {
    if (!tagged()) return;
    receives_.push_back(peer_.receive(peer_.data() + places_.target(i), order_.size, kDataTag));
  }
  void take_data() {
    if (!tagged()) return peer_.await_flag();
    peer_.wait(receives_.front(), "receive");
    receives_.pop_front();
  }
  void answer(std::uint64_t i) {
    if (!tagged()) return peer_.raise_flag();
    answer_ = i;
    peer_.wait(peer_.send(reinterpret_cast<const std::byte*>(&answer_), 8, kAnswerTag), "answer");
  }
  void take_answer() {
    if (!tagged()) return peer_.await_flag();
    std::uint64_t at = 0;
    peer_.wait(peer_.receive(reinterpret_cast<std::byte*>(&at), 8, kAnswerTag), "take an answer");
  }

  void stream() {
    std::deque<ucs_status_ptr_t> sends;  // those under way
    // A source is written anew only when the transfer before has ended: the receiver may copy from
    // it.
    const std::uint64_t window =
        order_.latency ? 1 : std::min<std::uint64_t>(order_.window, places_.map.side_slots);
    for (std::uint64_t i = 0; i < order_.transfers; ++i) {
      if (i >= window) {
        take_answer();
        peer_.wait(sends.front(), "send");
        sends.pop_front();
      }
      const std::byte* const data = prepare(i);
      if (order_.latency) peer_.shared().began[i] = now_ns();
      if (tagged()) {
        sends.push_back(peer_.send(data, order_.size, kDataTag));
      } else {
        sends.push_back(peer_.put(data, order_.size, places_.target(i)));
        peer_.raise_flag();
      }
    }
    for (const ucs_status_ptr_t request : sends) {
      take_answer();
      peer_.wait(request, "send");
    }
  }

  void send_echoes() {
    for (std::uint64_t i = 0; i < order_.transfers; ++i) {
      std::byte* const data = peer_.data();
      fill_ramp(data, order_.size, 0);
      put_word(data, places_.number(i));
      const std::int64_t start = now_ns();
      ucs_status_ptr_t coming = nullptr;
      if (tagged()) {
        coming = peer_.receive(peer_.echo(), order_.size, kAnswerTag);
        peer_.wait(peer_.send(data, order_.size, kDataTag), "send");
        peer_.wait(coming, "receive");
      } else {
        peer_.wait(peer_.put(data, order_.size, 0), "put");
        peer_.raise_flag();
        peer_.await_flag();
      }
      if (sum_words(peer_.echo(), order_.size) != echo_sum(i)) ++figures_.bad;
      figures_.samples_us[i] = static_cast<double>(now_ns() - start) / 2e3;
    }
    figures_.samples = static_cast<std::uint32_t>(order_.transfers);
  }

  // The receiver's answers lie behind its pool's first place, where nothing lands in a ping-pong.
  void answer_echoes() {
    std::byte* const reply = peer_.data() + kOneWayBytes;
    for (std::uint64_t i = 0; i < order_.transfers; ++i) {
      fill_ramp(reply, order_.size, 0);
      put_word(reply, places_.number(i));
      if (tagged()) {
        peer_.wait(peer_.receive(peer_.data(), order_.size, kDataTag), "receive");
      } else {
        peer_.await_flag();
      }
      if (sum_words(peer_.data(), order_.size) != echo_sum(i)) ++figures_.bad;
      if (tagged()) {
        peer_.wait(peer_.send(reply, order_.size, kAnswerTag), "answer");
      } else {
        peer_.wait(peer_.put_echo(reply, order_.size), "put");
        peer_.raise_flag();
      }
    }
  }
  std::uint64_t echo_sum(std::uint64_t i) const {
    return numbered_sum(0, places_.words, places_.number(i));
  }

  Peer& peer_;
  const Order& order_;
  Figures& figures_;
  const Places places_;
  std::deque<ucs_status_ptr_t> receives_;
  std::uint64_t answer_ = 0;
};

}  // namespace

void run(Peer& peer, const Order& order) {
  const auto meet = [&] { peer.shared().meet([&] { peer.progress(); }); };
  Figures& figures = peer.shared().figures[peer.receives() ? 0 : 1];
  figures.seconds = 0;
  figures.bad = 0;
  figures.samples = 0;
  Loop loop(peer, order, figures);
  meet();
  const double before = cpu_seconds();
  peer.receives() ? loop.receive() : loop.send();
  figures.cpu_seconds = cpu_seconds() - before;
  meet();  // a large message may need both sides until its end
}

}  // namespace farwrite::bench::ucx
