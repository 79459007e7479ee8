#include "device/control_connection.h"

#include <sys/epoll.h>

#include <array>
#include <utility>

#include "core/channel_end.h"
#include "core/mutex.h"
#include "core/status_wire.h"

namespace farwrite::device {
namespace {

// A peer that lets this much pile up does not read; it is cut off rather than fed.
constexpr std::size_t kMaxOutgoingBytes = std::size_t{8} << 20;

Status broken(int error_number) {
  return Status::system_error(StatusCode::kUnavailable, {core::kUseTheChannel},
                              "the connection broke", error_number, "connect again");
}

}  // namespace

ControlConnection::ControlConnection(std::unique_ptr<core::ByteStream> stream,
                                     core::EventLoop& loop, OnFrame on_frame, OnEnd on_end)
    : loop_(loop),
      on_frame_(std::move(on_frame)),
      on_end_(std::move(on_end)),
      stream_(std::move(stream)) {}

ControlConnection::~ControlConnection() { close(); }

Status ControlConnection::start() {
  // What came with the handshake is in the stream already: the descriptor will not announce it, but
  // it has room to send, and that wakes the loop just as well.
  const core::Lock lock(mutex_);
  std::uint32_t events = EPOLLIN;
  if (stream_->has_unread()) events |= EPOLLOUT;
  return loop_.add_fd(stream_->fd(), events, [this](std::uint32_t ready) { on_events(ready); });
}

void ControlConnection::send(ControlFrameType type, ByteView body) {
  const core::Lock lock(mutex_);
  if (ended_ || sending_ended_ || stream_ == nullptr) return;
  const std::vector<std::byte> frame = encode_frame(type, body);
  const bool was_empty = outgoing_.empty();
  outgoing_.insert(outgoing_.end(), frame.begin(), frame.end());
  if (!was_empty && outgoing_.size() <= kMaxOutgoingBytes) return;  // the loop is at it
  // A broken connection is reported by the loop, which sees the same end.
  (void)flush_locked();
  if (!outgoing_.empty()) (void)loop_.modify_fd(stream_->fd(), EPOLLIN | EPOLLOUT);
}

bool ControlConnection::all_sent() {
  const core::Lock lock(mutex_);
  return outgoing_.empty() || ended_ || stream_ == nullptr;
}

bool ControlConnection::end_sending() {
  const core::Lock lock(mutex_);
  if (ended_ || stream_ == nullptr || sending_ended_) return true;
  if (!outgoing_.empty()) return false;
  sending_ended_ = true;
  stream_->end_sending();
  return true;
}

void ControlConnection::close() {
  int fd = -1;
  {
    const core::Lock lock(mutex_);
    ended_ = true;
    if (stream_ != nullptr) fd = stream_->fd();
  }
  if (fd < 0) return;
  loop_.remove_fd(fd);
  const core::Lock lock(mutex_);
  stream_.reset();
}

void ControlConnection::on_events(std::uint32_t events) {
  bool more = false;
  if ((events & EPOLLOUT) != 0) {
    Status failed;
    {
      const core::Lock lock(mutex_);
      failed = flush_locked();
      if (stream_ != nullptr) more = stream_->has_unread();
      if (outgoing_.empty() && stream_ != nullptr) (void)loop_.modify_fd(stream_->fd(), EPOLLIN);
    }
    if (!failed.ok()) {
      end(failed);
      return;
    }
  }
  if (more || (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) on_readable();
}

void ControlConnection::on_readable() {
  std::array<std::byte, 16 * 1024> buffer;
  core::ByteStream::Moved moved;
  {
    const core::Lock lock(mutex_);
    if (ended_) return;
    const iovec piece{buffer.data(), buffer.size()};
    moved = stream_->receive(&piece, 1);
    // Others on the loop come first; then the rest, as in start().
    if (moved.state == core::ByteStream::State::kMoved && stream_->has_unread()) {
      (void)loop_.modify_fd(stream_->fd(), EPOLLIN | EPOLLOUT);
    }
  }
  if (moved.state == core::ByteStream::State::kWait) return;
  if (moved.state == core::ByteStream::State::kMoved) {
    const Status fed =
        splitter_.feed({buffer.data(), moved.bytes}, [this](ControlFrameType type, ByteView body) {
          if (!ended_.load()) on_frame_(type, body);
        });
    if (!fed.ok()) {
      const std::vector<std::byte> reason = core::status_to_bytes(fed);
      send(ControlFrameType::kRefuse, {reason.data(), reason.size()});
      end(fed);
    }
  } else if (moved.error == 0) {
    end(Status::error(StatusCode::kUnavailable, {core::kUseTheChannel},
                      "the peer closed the connection", "connect again"));
  } else {
    end(broken(moved.error));
  }
}

void ControlConnection::end(const Status& reason) {
  {
    const core::Lock lock(mutex_);
    if (ended_.exchange(true)) return;
    loop_.remove_fd(stream_->fd());
    stream_->shutdown();  // the peer must not treat it as alive
  }
  on_end_(reason);
}

Status ControlConnection::flush_locked() {
  std::size_t done = 0;
  Status failed;
  while (done < outgoing_.size()) {
    const iovec rest{outgoing_.data() + done, outgoing_.size() - done};
    const core::ByteStream::Moved moved = stream_->send(&rest, 1);
    done += moved.bytes;
    if (moved.state == core::ByteStream::State::kWait) break;
    if (moved.state == core::ByteStream::State::kEnded) {
      failed = broken(moved.error);
      done = outgoing_.size();
    }
  }
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(done));
  if (outgoing_.size() > kMaxOutgoingBytes) {
    failed = Status::error(StatusCode::kUnavailable, {core::kUseTheChannel},
                           "the peer does not read its control messages", "restart the peer");
    outgoing_.clear();
    stream_->shutdown();  // the loop sees the end and reports it
  }
  return failed;
}

}  // namespace farwrite::device
