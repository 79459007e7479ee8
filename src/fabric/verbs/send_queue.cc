#include "fabric/verbs/send_queue.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace farwrite::fabric::verbs {
namespace {

constexpr std::uint32_t kNumberMask = 0x7FFFFFFF;

ibv_sge piece(const std::byte* data, std::uint64_t bytes, std::uint32_t key) {
  return {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(bytes), key};
}

}  // namespace

SendQueue::SendQueue(Adapter& adapter, LaneMemory& memory, WorkPlace place)
    : adapter_(adapter), memory_(memory), place_(std::move(place)), limits_(adapter.limits()) {
  for (std::uint32_t buffer = 0; buffer < limits_.send_buffers; ++buffer) {
    free_buffers_.push_back(static_cast<int>(buffer));
  }
}

void SendQueue::begin(ibv_qp* pair, const CompletionQueue::QueueShare& queue) {
  pair_ = pair;
  queue_share_ = queue;
}

Status SendQueue::refused(std::string_view what, int error) const {
  return Status::system_error(StatusCode::kInternal, {what, place_.peer, "verbs"},
                              place_.device + " accepted no work request", error,
                              "connect again; see the kernel's log (dmesg)");
}

bool SendQueue::post(Work& work, Finished& finished) {
  using Kind = Work::Kind;
  if (under_way_.size() >= limits_.sends) return false;
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
      posted.buffer = take_buffer({work.own.data(), work.own.size()});
      if (posted.buffer < 0) return false;
    }
    const std::byte* const data =
        travels_inline ? work.own.data()
                       : memory_.send_buffer(static_cast<std::uint32_t>(posted.buffer));
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
  const bool last = work.posted + own + lent >= work.bytes();
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
      if (flush_by_atomic_) {
        request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        request.wr.atomic = {work.remote, 0, 0, work.remote_key};
      } else {
        request.opcode = IBV_WR_RDMA_READ;
      }
      break;
  }
  request.sg_list = pieces.data();
  // Whatever a caller waits for, or holds memory for, asks for its completion at once.
  posted.signalled = borrows || work.kind == Kind::kFlush ||
                     ++unsignalled_ >= limits_.signal_every ||
                     under_way_.size() + 1 >= limits_.sends;
  if (posted.signalled) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  request.wr_id = CompletionQueue::work_id(queue_share_, next_number_);
  ibv_send_wr* bad = nullptr;
  if (const int error = adapter_.library().post_send(pair_, &request, &bad); error != 0) {
    if (posted.buffer >= 0) free_buffers_.push_back(posted.buffer);
    failure_ = refused("post", error);
    cause_ = Cause::kRule;
    failed_.store(true);
    return false;
  }
  if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) counters_.immediates.add();
  if (request.opcode == IBV_WR_SEND) counters_.messages.add();
  if (work.kind == Kind::kFlush) ++flushes_;
  next_number_ = (next_number_ + 1) & kNumberMask;
  work.posted += own + lent;
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

bool SendQueue::end_with_newest(Work& work, const Status& reason) {
  if (under_way_.empty()) return false;
  under_way_.back().completion = std::move(work.completion);
  under_way_.back().outcome = reason;
  return true;
}

int SendQueue::take_buffer(ByteView bytes) {
  if (free_buffers_.empty()) return -1;
  const int buffer = free_buffers_.back();
  free_buffers_.pop_back();
  std::memcpy(memory_.send_buffer(static_cast<std::uint32_t>(buffer)), bytes.data, bytes.size);
  return buffer;
}

void SendQueue::finish_front(const Status& status, Finished& finished) {
  Posted& posted = under_way_.front();
  if (posted.buffer >= 0) free_buffers_.push_back(posted.buffer);
  if (posted.kind == Work::Kind::kFlush) --flushes_;
  if (posted.completion != nullptr || posted.registration != nullptr) {
    finished.push_back({std::move(posted.completion), status.ok() ? posted.outcome : status,
                        std::move(posted.registration)});
  }
  under_way_.pop_front();
}

void SendQueue::on_sent(const ibv_wc& completion, std::uint32_t number, Status& ended,
                        Finished& finished) {
  const auto count = static_cast<std::uint32_t>(under_way_.size());
  const std::uint32_t before = (number - (next_number_ - count)) & kNumberMask;
  if (before >= count) return;  // of a request that was settled when the lane ended
  // A queue pair works in order: what was posted before this one is done.
  for (std::uint32_t i = 0; i < before; ++i) finish_front(Status(), finished);
  if (completion.status == IBV_WC_SUCCESS) {
    finish_front(Status(), finished);
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
  if (ended.ok()) ended = failure_;
  failed_.store(true);
  finish_front(ended, finished);
}

void SendQueue::settle(const Status& reason, Finished& finished) {
  while (!under_way_.empty()) finish_front(reason, finished);
}

}  // namespace farwrite::fabric::verbs
