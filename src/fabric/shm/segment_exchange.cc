#include "fabric/shm/segment_exchange.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/deadline.h"
#include "core/fields.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/mutex.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::string_view kOpenMemory = "open memory";
constexpr std::string_view kUnknownPacket = "an unknown packet on the unix socket";

// The ids come from the peer, so what it can make us remember is bounded.
constexpr std::size_t kMaxSegments = 1 << 16;
constexpr std::chrono::nanoseconds kDeathFollows = std::chrono::milliseconds(500);

constexpr std::chrono::nanoseconds kShortestTurn = std::chrono::milliseconds(5);

enum class ExchangePacket : std::uint16_t { kRequest = 16, kAnswer = 17 };

struct RequestMessage {
  std::uint32_t segment = 0;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(core::constant(ExchangePacket::kRequest, kUnknownPacket), segment);
  }
};

struct AnswerMessage {
  std::uint32_t segment = 0;
  bool found = false;
  bool writable = false;
  bool on_gpu = false;
  std::uint64_t bytes = 0;
  gpu::GpuUuid gpu{};

  template <typename Wire>
  void fields(Wire& wire) {
    wire(core::constant(ExchangePacket::kAnswer, kUnknownPacket), segment, found, writable, on_gpu,
         bytes, gpu);
  }
};

template <typename Message>
Status send_exchange(int socket, const Message& message, const std::vector<int>& fds,
                     core::Deadline deadline) {
  const std::vector<std::byte> bytes = core::to_bytes(message);
  return send_packet(socket, {bytes.data(), bytes.size()}, fds, deadline, kOpenMemory);
}

template <typename Message>
Result<Message> read_exchange(const Packet& packet, std::string_view peer) {
  return core::from_bytes<Message>({packet.bytes.data(), packet.bytes.size()},
                                   {.operation = kOpenMemory, .fabric = "shm", .peer = peer});
}

}  // namespace

SegmentExchange::SegmentExchange(core::UniqueFd socket, core::UniqueFd spare, core::EventLoop& loop,
                                 std::string peer, std::chrono::nanoseconds idle_time,
                                 FindSegment find, std::shared_ptr<const void> witness,
                                 std::function<void(const Status&)> on_closed)
    : socket_(std::move(socket)),
      spare_(std::move(spare)),
      loop_(loop),
      peer_(std::move(peer)),
      idle_time_(idle_time),
      find_(std::move(find)),
      witness_(std::move(witness)),
      on_closed_(std::move(on_closed)) {}

void SegmentExchange::start() {
  const Status watched =
      loop_.add_fd(socket_.get(), EPOLLIN, [this](std::uint32_t) { on_readable(); });
  if (!watched.ok()) fail(watched);
  timer_ = loop_.every(
      std::clamp<std::chrono::nanoseconds>(idle_time_ / 4, kShortestTurn, std::chrono::seconds(1)),
      [this] { drop_idle(); });
}

SegmentExchange::~SegmentExchange() { stop(); }

void SegmentExchange::stop() {
  if (timer_ != 0) loop_.cancel_timer(timer_);
  loop_.remove_fd(socket_.get());
}

void SegmentExchange::drop_idle() {
  std::shared_ptr<memory::MappedSegment> idle;  // unmapped without the lock
  const core::Lock lock(mutex_);
  for (auto at = imports_.begin(); at != imports_.end(); ++at) {
    Import& import = at->second;
    if (import.mapped == nullptr || import.users > 0) continue;
    if (import.mapped.use_count() > 1) {
      import.used_at = core::now_ns();
    } else if (core::now_ns() - import.used_at > idle_time_.count()) {
      idle = std::move(import.mapped);
      imports_.erase(at);
      return;  // one each time: the loop has other work
    }
  }
}

Result<std::shared_ptr<memory::MappedSegment>> SegmentExchange::obtain(std::uint32_t segment_id,
                                                                       core::Deadline deadline) {
  core::Lock lock(mutex_);
  if (imports_.size() >= kMaxSegments && !imports_.contains(segment_id)) {
    std::erase_if(imports_, [](const auto& entry) { return entry.second.forgotten(); });
    if (imports_.size() >= kMaxSegments) {
      return Status::error(StatusCode::kResourceExhausted, {kOpenMemory, peer_, "shm"},
                           "the peer has named too many segments", "restart the peer");
    }
  }
  Import& import = imports_[segment_id];
  import.used_at = core::now_ns();
  ++import.users;
  auto obtained = obtain_locked(segment_id, import, deadline);
  --import.users;
  return obtained;
}

Result<std::shared_ptr<memory::MappedSegment>> SegmentExchange::obtain_locked(
    std::uint32_t segment_id, Import& import, core::Deadline deadline) {
  for (bool waited = false;; waited = true) {
    if (auto mapped = import.get(); mapped != nullptr) return mapped;
    if (!ended_.ok()) {
      wait_for_proof_of_death(deadline);
      return ended_;
    }
    if (waited && !import.failure.ok()) return import.failure;
    if (import.unmapped.has_value()) {
      SegmentAnswer answer = *std::exchange(import.unmapped, std::nullopt);
      const bool on_gpu = answer.gpu.has_value();
      auto mapped = map(std::move(answer));
      import.requested = false;
      if (mapped.ok() && on_gpu) {
        import.on_gpu = *mapped;
      } else if (mapped.ok()) {
        import.mapped = *mapped;
      } else {
        import.failure = mapped.status();
      }
      changed_.notify_all();
      return mapped;
    }
    if (!import.requested) {
      import.requested = true;
      import.failure = Status();
      const Status sent = request(segment_id, deadline);
      if (!sent.ok()) {
        import.requested = false;
        import.failure = sent;  // others may wait for the answer to what never went out
        changed_.notify_all();
        if (sent.code() != StatusCode::kUnavailable) return sent;
        if (ended_.ok()) ended_ = sent;  // the loop reads the end of the socket as well
      }
      continue;  // the answer may have come meanwhile
    }
    const auto moved = [&]() FW_REQUIRES(mutex_) {
      return !import.requested || import.unmapped.has_value() || !ended_.ok();
    };
    if (!core::Interrupt::wait(changed_, mutex_, deadline, moved)) {
      return Status::error(StatusCode::kDeadlineExceeded, {kOpenMemory, peer_, "shm"},
                           "the peer did not hand over its memory in time",
                           "check that the peer is not stopped, or allow more time");
    }
  }
}

Status SegmentExchange::request(std::uint32_t segment_id, core::Deadline deadline) {
  const core::Unlock unlocked(mutex_);
  return send_exchange(socket_.get(), RequestMessage{segment_id}, {}, deadline);
}

// A dying process closes its sockets a moment before its death can be proven.
void SegmentExchange::wait_for_proof_of_death(core::Deadline deadline) {
  const core::Deadline proof = core::Deadline::after(kDeathFollows);
  const core::Deadline until = proof.earlier(deadline);
  while (!dead_ && ended_.code() == StatusCode::kUnavailable && !lives_on_ && !until.expired()) {
    changed_.wait_for(mutex_, until.remaining());
  }
  lives_on_ = lives_on_ || (!dead_ && proof.expired());
}

Result<std::shared_ptr<memory::MappedSegment>> SegmentExchange::map(SegmentAnswer answer) {
  const core::Unlock unlocked(mutex_);
  FARWRITE_RETURN_IF_ERROR(answer.refused);
  if (!answer.found) {
    return Status::error(StatusCode::kNotFound, {kOpenMemory, peer_, "shm"},
                         "the peer has no such memory for this process, or no longer",
                         "ask for a fresh descriptor; what a channel allocated, its one peer alone "
                         "can open");
  }
  if (!answer.gpu.has_value()) {
    return memory::MappedSegment::map(std::move(answer.fd), answer.bytes, answer.writable,
                                      witness_);
  }
  auto gpu = gpu::Gpu::with_uuid(*answer.gpu);
  if (!gpu.ok()) return gpu.status();
  auto memory = gpu::GpuMemory::import(**gpu, std::move(answer.fd), answer.bytes, answer.writable);
  if (!memory.ok()) return memory.status();
  return memory::MappedSegment::on_gpu(*std::move(memory), answer.writable);
}

void SegmentExchange::fail(const Status& reason, bool dead) {
  const core::Lock lock(mutex_);
  // Proven death says more than the end of its socket.
  if (ended_.ok() || dead) ended_ = reason;
  dead_ = dead_ || dead;
  changed_.notify_all();
}

void SegmentExchange::on_readable() {
  bool fds_missing = false;
  auto packet = receive_packet(socket_.get(), core::Deadline::after({}), kOpenMemory, &fds_missing);
  if (!packet.ok()) {
    if (packet.status().code() == StatusCode::kDeadlineExceeded) return;  // a spurious wake-up
    end(packet.status());
    return;
  }
  if (Result<RequestMessage> request = read_exchange<RequestMessage>(*packet, peer_);
      request.ok()) {
    return answer(request->segment);
  }
  Result<AnswerMessage> message = read_exchange<AnswerMessage>(*packet, peer_);
  if (!message.ok()) return end(message.status());
  if (message->found && packet->fds.size() != 1 && !fds_missing) {
    return end(Status::error(StatusCode::kProtocolError, {kOpenMemory, peer_, "shm"},
                             kUnknownPacket, "run the same Farwrite release on both sides"));
  }
  SegmentAnswer answer;
  answer.found = message->found;
  answer.writable = message->writable;
  answer.bytes = message->bytes;
  if (message->on_gpu) answer.gpu = message->gpu;
  if (fds_missing && ask_again(message->segment)) return;
  if (fds_missing) {
    answer.refused = no_room_for_fds(kOpenMemory);  // the channel lives on
  } else if (answer.found) {
    answer.fd = std::move(packet->fds.front());
  }
  take_answer(message->segment, std::move(answer));
}

bool SegmentExchange::ask_again(std::uint32_t segment_id) {
  if (!spare_.valid()) return false;
  spare_.reset();
  return send_exchange(socket_.get(), RequestMessage{segment_id}, {}, core::Deadline::after({}))
      .ok();
}

void SegmentExchange::end(const Status& reason) {
  loop_.remove_fd(socket_.get());
  fail(reason);
  if (on_closed_) on_closed_(reason);
}

void SegmentExchange::answer(std::uint32_t segment_id) {
  std::shared_ptr<memory::Segment> segment = find_(segment_id);
  core::UniqueFd exported;  // of a GPU's memory: closed here, and open at the peer
  if (segment != nullptr && segment->gpu() != nullptr) {
    auto fd = segment->gpu_memory().export_fd();
    if (fd.ok()) {
      exported = *std::move(fd);
    } else {
      core::log(core::LogLevel::kWarning, fd.status().message());
      segment.reset();
    }
  }
  const gpu::Gpu* const gpu = segment != nullptr ? segment->gpu() : nullptr;
  AnswerMessage message = {.segment = segment_id, .found = segment != nullptr};
  if (segment != nullptr) {
    message.writable = segment->use() == memory::SegmentUse::kLanding;
    message.bytes = segment->bytes();
  }
  if (gpu != nullptr) {
    message.on_gpu = true;
    message.gpu = gpu->uuid();
  }
  std::vector<int> fds;
  if (segment != nullptr) fds.push_back(gpu != nullptr ? exported.get() : segment->fd());
  // A peer that does not read its answers must not hold the loop up.
  const Status sent = send_exchange(socket_.get(), message, fds, core::Deadline::after({}));
  if (sent.code() == StatusCode::kDeadlineExceeded) {
    end(Status::error(StatusCode::kProtocolError, {kOpenMemory, peer_, "shm"},
                      "the peer requests memory and does not read the answers",
                      "restart the peer"));
  } else if (!sent.ok()) {
    end(sent);
  }
}

void SegmentExchange::take_answer(std::uint32_t segment_id, SegmentAnswer answer) {
  const core::Lock lock(mutex_);
  const auto import = imports_.find(segment_id);
  if (import == imports_.end() || !import->second.requested) return;  // nothing asked
  // Nothing waits any more: a GPU's memory must not either, and a refusal may be over soon.
  const bool refused = !answer.found || !answer.refused.ok();
  if (import->second.users == 0 && (answer.gpu.has_value() || refused)) {
    import->second.requested = false;
    return;
  }
  import->second.unmapped = std::move(answer);
  changed_.notify_all();
}

}  // namespace farwrite::fabric::shm
