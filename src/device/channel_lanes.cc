#include "device/channel_lanes.h"

#include <bit>
#include <mutex>
#include <utility>

#include "core/inside.h"
#include "device/channel_intake.h"
#include "device/channel_lane.h"

namespace farwrite::device {
namespace {

// The answer of a thread that polls on another processor has come by then. They take less time than
// a look at the clock and the rest of the longer way.
constexpr int kLooks = 16;

}  // namespace

void ChannelLanes::start(const std::weak_ptr<ChannelLanes>& self, const PeerInfo& peer,
                         const std::string& peer_name, const fabric::Capabilities& capabilities,
                         const std::function<Poller&()>& next_poller) {
  user_lanes_ = peer.lanes;
  cpu_free_target_ = capabilities.cpu_free_target;
  polls_memory_ = capabilities.cpu_free_target && capabilities.maps_peer_memory;
  fabric_ = to_string(peer.fabric);
  peer_name_ = peer_name;
  undrained_.store(user_lanes_);
  for (std::uint32_t index = 0; index <= user_lanes_; ++index) {
    // The return lane has next to nothing to do: it goes with the first and takes no turn.
    Poller& poller = index < user_lanes_ ? next_poller() : lanes_.front()->poller();
    lanes_.push_back(std::make_shared<ChannelLane>(self, index, index == user_lanes_, poller));
  }
  for (const auto& lane : lanes_) lane->poller().add(lane);
  started_.store(true);
  if (life_.peer_over()) drain();  // it may have gone before the lanes were there
}

void ChannelLanes::expect_progress(fabric::OperationKind kind, std::uint32_t lane) {
  if (kind == fabric::OperationKind::kRead && core::Inside::is(this) &&
      this->lane(lane).rings_for_pending()) {
    return;  // this thread is in drive(), and will poll
  }
  const auto expect = [this](std::uint32_t index) {
    lanes_[index]->expect_progress(this->lane(index).rings_for_pending());
  };
  if (kind != fabric::OperationKind::kFlush) return expect(lane);
  for (std::uint32_t index = 0; index < lanes_.size(); ++index) expect(index);
}

void ChannelLanes::hand_over(std::uint64_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto index = static_cast<std::uint32_t>(std::countr_zero(lanes));
    lanes_[index]->expect_progress(lane(index).rings_for_pending());
  }
}

void ChannelLanes::disarm() {
  for (std::uint32_t index = 0; index < user_lanes_; ++index) lane(index).disarm();
}

void ChannelLanes::kick() {
  for (const auto& lane : lanes_) lane->poller().kick();
}

void ChannelLanes::drain() {
  if (started_.load()) kick();
}

void ChannelLanes::end() {
  if (takes_returns_.load()) take_returns(false);
  const ChannelLink::LinkUse link(link_);
  if (!link || life_.peer_over()) return;
  fabric::Operation end;
  end.kind = fabric::OperationKind::kEnd;
  for (std::uint32_t index = 0; index < user_lanes_; ++index) {
    // Pending or not, it goes behind what was posted before, or the peer has gone.
    if (!link->lane(index).post(end).done()) lanes_[index]->expect_progress();
  }
}

bool ChannelLanes::leave_pollers(bool return_lane_too, core::Deadline deadline) {
  bool left = true;
  for (const auto& lane : lanes_) {
    if (!return_lane_too && lane->is_return_lane()) continue;
    if (!lane->poller().remove(lane, deadline)) left = false;
  }
  return left;
}

void ChannelLanes::take_returns(bool take) {
  takes_returns_.store(take && polls_memory_);
  if (!take) kick();
}

// While a thread drives, it takes what comes on the return lane, and the poller that sleeps on the
// lane's doorbell is not woken for it.
class ChannelLanes::ReturnTurn {
 public:
  explicit ReturnTurn(ChannelLanes& lanes) : lanes_(lanes) {
    if (!lanes_.polls_memory_) return;
    lanes_.return_turns_.fetch_add(1);
    lanes_.lane(lanes_.user_lanes_).disarm();
  }
  ~ReturnTurn() {
    if (!lanes_.polls_memory_) return;
    lanes_.return_turns_.fetch_sub(1);
    if (!lanes_.lane(lanes_.user_lanes_).rearm()) lanes_.lanes_.back()->poller().kick();
  }
  ReturnTurn(const ReturnTurn&) = delete;
  ReturnTurn& operator=(const ReturnTurn&) = delete;

 private:
  ChannelLanes& lanes_;
};

void ChannelLanes::drive(const std::function<void()>& post, const std::function<bool()>& over,
                         const std::function<void(Notification)>& take, core::Deadline deadline,
                         std::chrono::nanoseconds spin) {
  // The thread waits in another way for what is left.
  struct HandOver {
    ChannelLanes& lanes;
    const std::function<bool()>& over;
    ~HandOver() {
      if (!over()) lanes.hand_over(~std::uint64_t{0} >> (64 - lanes.user_lanes_));
      lanes.hand_over_rest();
    }
  } const left{*this, over};
  const NotificationInbox::Drive drive(inbox_, *this);
  const ReturnTurn returns(*this);
  const core::Inside inside(this);
  post();
  while (!over()) {
    Result<std::optional<Notification>> next = inbox_.take_until(*this, deadline, spin, over);
    if (!next.ok()) break;
    if (next->has_value()) take(**std::move(next));
  }
}

bool ChannelLanes::take_bare(const core::Gate& gate, bool spins, std::uint32_t& tag) {
  // Another lane would never have its turn, and at the end a look says what is drained.
  if (!polls_memory_ || user_lanes_ != 1 || returns_are_ours() || life_.peer_over()) return false;
  if (gate.closed())
    return false;  // asked below as well: here it keeps a loop from holding a close up
  const bool taken = inbox_.take_bare([&](const std::atomic<std::size_t>& queued) {
    return !gate.closed() && lane(0).take_bare(spins ? kLooks : 1, queued, tag);
  });
  if (taken) trace(0, 0, tag);
  return taken;
}

void ChannelLanes::poll_lanes(std::optional<Notification>* taken) {
  const bool over = life_.peer_over();
  for (std::uint32_t index = 0; index < user_lanes_; ++index) {
    fabric::Lane& lane = this->lane(index);
    // A thread that spins finds nothing most of the time. At the end every lane is polled, because
    // only that says that it is drained.
    if (!over && !lane.worth_polling()) continue;
    fabric::Progress progress;
    {
      const NotificationInbox::Delivery delivery(inbox_, std::try_to_lock);
      // With a handler the pollers do. Asked here, where it does not change.
      if (!delivery.begun() || inbox_.has_handler()) return;
      Intake intake(*this, taken);
      // Whatever is left pending, post() has told the poller already.
      progress = lane.poll(intake);
    }
    // In drive() the thread itself waits for the answers.
    if (progress.unsent || (progress.awaits && !core::Inside::is(this))) {
      left_behind_.fetch_or(std::uint64_t{1} << index);
    }
    if (over) [[unlikely]]
      (void)lanes_[index]->is_drained(progress);
  }
  // Behind the others: what the peer returned before it sent a notification is taken before that.
  if (returns_are_ours() && lane(user_lanes_).worth_polling()) (void)serve_returns();
}

bool ChannelLanes::arm_lanes(std::vector<pollfd>& doorbells) {
  bool quiet = true;
  const std::uint32_t lanes = user_lanes_ + (takes_returns_.load() ? 1 : 0);
  for (std::uint32_t index = 0; index < lanes; ++index) {
    const fabric::Doorbell doorbell = lane(index).arm();
    if (doorbell.ready || doorbell.holds) quiet = false;  // our queue is empty, so there is room
    if (doorbell.fd >= 0) doorbells.push_back({doorbell.fd, doorbell.events, 0});
  }
  if (return_turns_.load() > 0 && !lane(user_lanes_).rearm()) quiet = false;
  return quiet;
}

Status ChannelLanes::ended() const {
  // A poller may still be handing over what had arrived before the peer went.
  if (life_.closing() || (life_.peer_over() && life_.drained())) {
    return life_.unusable("wait for a notification", peer_name_);
  }
  return Status();
}

fabric::Progress ChannelLanes::serve(std::uint32_t lane) {
  const core::Inside inside(channel_);
  const NotificationInbox::Delivery delivery(inbox_);
  if (life_.closing()) {
    Discard discard;
    return this->lane(lane).poll(discard);
  }
  Intake intake(*this);
  const fabric::Progress progress = this->lane(lane).poll(intake);
  inbox_.wake_drivers();  // a read that one of them waits for may be over
  return progress;
}

fabric::Progress ChannelLanes::serve_returns() {
  const core::Inside inside(channel_);
  ReturnIntake intake(observer_);
  return lane(user_lanes_).poll(intake);
}

void ChannelLanes::lane_is_drained() {
  if (undrained_.fetch_sub(1) == 1) observer_.on_lanes_drained();
}

}  // namespace farwrite::device
