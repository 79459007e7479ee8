#include "box/reply_taker.h"

#include <mutex>
#include <new>
#include <utility>

#include "core/counted.h"
#include "core/interrupt.h"

namespace farwrite::box {
namespace {

// A client that has been idle for so long has the poller take what the server says unasked.
constexpr std::chrono::nanoseconds kIdle = std::chrono::milliseconds(20);
// Threads that wait by turns would change the handler for each call.
constexpr std::chrono::nanoseconds kOthersComeBack = std::chrono::milliseconds(10);

}  // namespace

void ReplyTaker::drive(const std::function<void()>& post, const std::function<bool()>& over,
                       const std::function<bool()>& alone, core::Deadline deadline) {
  // When it does not count as waiting any more.
  struct Watch {
    ReplyTaker& taker;
    ~Watch() { taker.watch(); }
  } const last{*this};
  const core::Counted waiting(waiting_);
  // Handlers of signals, which run here, may call the client as well.
  const bool interrupted = core::Interrupt::ends_wait();
  const DriversTurn drive(*this, [&] { return !interrupted && alone(); });
  {
    const core::Inside inside(this);
    if (drive) {
      drives_.fetch_add(1);
      channel_.drive(post, over, take_, deadline.earlier(core::Interrupt::turn()));
    } else {
      make_way();  // another thread may drive
      post();
    }
  }
  if (over()) return;
  if (drive && !deadline.expired()) {
    give_to_poller();
  } else {
    make_way();
  }
}

ReplyTaker::DriversTurn::DriversTurn(ReplyTaker& taker, const std::function<bool()>& alone)
    : taker_(taker), begun_(taker.remove_handler(alone)) {}

ReplyTaker::DriversTurn::~DriversTurn() {
  if (!begun_) return;
  bool ended = false;
  {
    const core::Lock lock(taker_.mutex_);
    taker_.driving_ = false;
    ended = taker_.end_ != nullptr;
  }
  // It calls the program, which this thread must not.
  if (ended && !taker_.later({}, &ReplyTaker::call_end)) taker_.call_end();
}

bool ReplyTaker::remove_handler(const std::function<bool()>& alone) {
  const auto may_drive = [&] { return waiting_.load() == 1 && unsettled_.load() == 0 && alone(); };
  if (!may_drive()) return false;
  bool driven = driven_.load();
  if (!driven && core::now_ns() >= not_before_ns_.load()) {
    const core::Lock lock(change_);
    driven_.store(true);
    driven = may_drive() && channel_.on_notification(nullptr, {}).ok();
    driven_.store(driven);
  }
  if (!driven) return false;
  const core::Lock lock(mutex_);
  driving_ = !finished_;
  return driving_;
}

void ReplyTaker::make_way() {
  if (!driven_.load() || core::Inside::is(&change_)) return;
  not_before_ns_.store(core::now_ns() + kOthersComeBack.count());
  give_to_poller();
}

void ReplyTaker::make_way_until_settled(const Completion& read) {
  unsettled_.fetch_add(1);
  make_way();
  read.on_settled([weak = weak_from_this()](const Status&) {
    if (const auto self = weak.lock()) self->unsettled_.fetch_sub(1);
  });
}

void ReplyTaker::give_to_poller() {
  if (!driven_.load()) return;
  const core::Lock lock(change_);
  // A poll under way ends first, which calls no code of the program. Of a channel that has ended
  // nothing comes.
  if (driven_.load()) static_cast<void>(set_handler());
}

Status ReplyTaker::set_handler(std::chrono::nanoseconds timeout) {
  const core::Inside inside(&change_);
  Status set = channel_.on_notification(take_, timeout);
  if (set.ok()) driven_.store(false);
  return set;
}

void ReplyTaker::finish(std::function<void()> end) {
  {
    const core::Lock lock(mutex_);
    finished_ = true;
    if (driving_) {
      end_ = std::move(end);
      return;
    }
  }
  give_to_poller();  // and takes what is queued
  end();
}

void ReplyTaker::call_end() {
  std::function<void()> end;
  {
    const core::Lock lock(mutex_);
    end = std::exchange(end_, nullptr);
  }
  if (end != nullptr) end();
}

void ReplyTaker::watch() {
  if (!driven_.load() || watched_.exchange(true)) return;
  seen_drives_.store(drives_.load());
  if (!later(kIdle, &ReplyTaker::look_for_idleness)) watched_.store(false);
}

void ReplyTaker::look_for_idleness() {
  watched_.store(false);
  // A thread that waits watches when it leaves.
  if (waiting_.load() > 0) return;
  if (drives_.load() == seen_drives_.load() && change_.try_lock()) {
    const core::Lock lock(change_, std::adopt_lock);
    if (!driven_.load()) return;
    // On the control loop, which must not wait.
    if (set_handler({}).code() != StatusCode::kDeadlineExceeded) return;
  }
  watch();
}

bool ReplyTaker::later(std::chrono::nanoseconds delay, void (ReplyTaker::*call)()) noexcept {
  try {
    channel_.run_later(delay, [weak = weak_from_this(), call] {
      if (const auto self = weak.lock()) (*self.*call)();
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace farwrite::box
