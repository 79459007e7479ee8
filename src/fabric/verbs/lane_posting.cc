// The half of LaneSender that deals with the adapter: work requests, their completions, and the
// end.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fabric/verbs/lane_sender.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr std::uint32_t kNumberMask = 0x7FFFFFFF;

ibv_sge piece(const std::byte* data, std::uint64_t bytes, std::uint32_t key) {
  return {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(bytes), key};
}

}  // namespace

// True once all of it is with the adapter, or given up.
bool LaneSender::post_all_locked(Work& work, Finished& finished) {
  const std::uint64_t bytes = size_of(work);
  if (work.kind == Kind::kWrite && bytes == 0 && !work.notify) {
    if (work.completion != nullptr) finished.emplace_back(std::move(work.completion), Status());
    return true;
  }
  do {
    if (!ended_.ok()) return give_up_locked(work, ended_, finished);
    if (is_dropped(work)) return give_up_locked(work, revoked(), finished);
    if (under_way_.size() >= limits_.sends) return false;
    if (!post_one_locked(work, finished)) return false;
  } while (work.posted < bytes);
  return true;
}

bool LaneSender::give_up_locked(Work& work, const Status& reason, Finished& finished) {
  work.given_up = reason;
  if (work.kind == Kind::kFlush) --flushes_;
  if (work.is_control) --controls_;
  // Nobody will see it and give it back.
  if (work.costs_credit && ended_.ok()) (void)outbox_.add_credit(1);
  if (work.completion == nullptr) return true;
  if (work.posted > 0 && !under_way_.empty()) {
    // The adapter still moves its first part; nothing was posted since.
    under_way_.back().completion = std::move(work.completion);
    under_way_.back().outcome = reason;
  } else {
    finished.emplace_back(std::move(work.completion), reason);
  }
  return true;
}

// One work request: a chunk of a large transfer, all of a small one. False: no room now.
bool LaneSender::post_one_locked(Work& work, Finished& finished) {
  ibv_send_wr request{};
  std::array<ibv_sge, 2> pieces{};
  Posted posted;
  posted.kind = work.kind;
  const std::uint64_t own = work.posted == 0 ? work.own.size() : 0;
  const std::uint64_t done = work.posted == 0 ? 0 : work.posted - work.own.size();
  std::uint64_t lent = 0;
  if (own > 0) {
    const bool travels_inline = own <= limits_.inline_bytes && work.source.size == 0;
    if (travels_inline) {
      request.send_flags |= IBV_SEND_INLINE;
      counters_.inlined.add();
    } else {
      posted.slot = take_slot_locked({work.own.data(), work.own.size()});
      if (posted.slot < 0) return false;
    }
    const std::byte* const data = travels_inline
                                      ? work.own.data()
                                      : memory_.send_slot(static_cast<std::uint32_t>(posted.slot));
    pieces[static_cast<std::size_t>(request.num_sge++)] = piece(data, own, memory_.local_key());
  }
  if (work.source.size > 0) {
    lent = std::min(limits_.chunk_bytes - own, work.source.size - done);
    pieces[static_cast<std::size_t>(request.num_sge++)] =
        piece(work.source.data + done, lent, work.registration->local_key());
  } else if (work.destination.size > 0) {
    lent = std::min(limits_.chunk_bytes, work.destination.size - done);
    pieces[static_cast<std::size_t>(request.num_sge++)] =
        piece(work.destination.data + done, lent, work.registration->local_key());
  } else if (work.kind == Kind::kFlush) {
    pieces[static_cast<std::size_t>(request.num_sge++)] =
        piece(memory_.flush_answer(), sizeof(std::uint64_t), memory_.local_key());
  }
  const bool last = work.posted + own + lent >= size_of(work);
  const bool borrows = lent > 0;
  request.wr.rdma.remote_addr = work.remote + work.posted;
  request.wr.rdma.rkey = work.remote_key;
  switch (work.kind) {
    case Kind::kWrite:
      request.opcode = last && work.notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
      request.imm_data = htonl(work.tag);
      break;
    case Kind::kRead:
      request.opcode = IBV_WR_RDMA_READ;
      break;
    case Kind::kMessage:
      request.opcode = IBV_WR_SEND;
      break;
    case Kind::kFlush:
      if (peer_.flush_by_atomic) {
        request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        request.wr.atomic = {work.remote, 0, 0, work.remote_key};
      } else {
        request.opcode = IBV_WR_RDMA_READ;
      }
      break;
  }
  request.sg_list = pieces.data();
  // Whatever somebody waits for, or holds memory for, asks for its completion at once.
  posted.signalled = borrows || work.kind == Kind::kFlush ||
                     ++unsignalled_ >= limits_.signal_every ||
                     under_way_.size() + 1 >= limits_.sends;
  if (posted.signalled) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  request.wr_id = CompletionQueue::work_id(queue_place_, next_number_);
  ibv_send_wr* bad = nullptr;
  if (const int error = adapter_.library().post_send(pair_, &request, &bad); error != 0) {
    if (posted.slot >= 0) free_slots_.push_back(posted.slot);
    failure_ = refused("post", error);
    cause_ = Cause::kRule;
    ended_ = failure_;
    failed_.store(true);
    return false;
  }
  if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) counters_.immediates.add();
  if (request.opcode == IBV_WR_SEND) counters_.messages.add();
  next_number_ = (next_number_ + 1) & kNumberMask;
  work.posted += own + lent;
  if (work.is_control) --controls_;
  posted.registration = work.registration;
  if (last && work.completion != nullptr) {
    if (borrows || work.kind == Kind::kFlush) {
      posted.completion = std::move(work.completion);
    } else {
      finished.emplace_back(std::move(work.completion), Status());
    }
  }
  under_way_.push_back(std::move(posted));
  return true;
}

int LaneSender::take_slot_locked(ByteView bytes) {
  if (free_slots_.empty()) return -1;
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  std::memcpy(memory_.send_slot(static_cast<std::uint32_t>(slot)), bytes.data, bytes.size);
  return slot;
}

void LaneSender::finish_front_locked(const Status& status, Finished& finished) {
  Posted& posted = under_way_.front();
  if (posted.slot >= 0) free_slots_.push_back(posted.slot);
  if (posted.kind == Kind::kFlush) --flushes_;
  if (posted.completion != nullptr || posted.registration != nullptr) {
    finished.push_back({std::move(posted.completion), status.ok() ? posted.outcome : status,
                        std::move(posted.registration)});
  }
  under_way_.pop_front();
}

void LaneSender::on_sent(const ibv_wc& completion, std::uint32_t number, Finished& finished) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto count = static_cast<std::uint32_t>(under_way_.size());
  const std::uint32_t before = (number - (next_number_ - count)) & kNumberMask;
  if (before >= count) return;  // of a request that was settled when the lane ended
  // A queue pair works in order: what was posted before this one is done.
  for (std::uint32_t i = 0; i < before; ++i) finish_front_locked(Status(), finished);
  if (completion.status == IBV_WC_SUCCESS) {
    finish_front_locked(Status(), finished);
    return;
  }
  if (failure_.ok()) {
    static constexpr std::array<std::string_view, 4> kNames = {"write", "read", "flush", "send"};
    const auto kind = static_cast<std::size_t>(under_way_.front().kind);
    failure_ = status_of(adapter_.library(), completion, kNames[kind], place_);
    cause_ = completion.status == IBV_WC_WR_FLUSH_ERR ? Cause::kFlushed
             : means_peer_gone(completion.status)     ? Cause::kPeerGone
                                                      : Cause::kRule;
  }
  if (ended_.ok()) ended_ = failure_;
  failed_.store(true);
  finish_front_locked(ended_, finished);
}

Status LaneSender::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

LaneSender::Cause LaneSender::cause() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cause_;
}

void LaneSender::end(const Status& reason) {
  Finished finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_.ok()) ended_ = reason;
    for (Work& work : queue_) (void)give_up_locked(work, ended_, finished);
    queue_.clear();
    while (std::optional<Work> work = outbox_.drop()) {
      (void)give_up_locked(*work, ended_, finished);
    }
  }
  tell(std::move(finished));
}

void LaneSender::settle(const Status& reason) {
  end(reason);
  Finished finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!under_way_.empty()) finish_front_locked(ended_, finished);
  }
  tell(std::move(finished));
}

}  // namespace farwrite::fabric::verbs
