#include "device/control_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace farwrite::device {
namespace {

// A peer that lets this much pile up does not read; it is cut off rather than fed.
constexpr std::size_t kMaxOutgoingBytes = std::size_t{8} << 20;
constexpr std::string_view kOperation = "talk to the peer";

}  // namespace

ControlConnection::ControlConnection(core::UniqueFd socket, core::EventLoop& loop, OnFrame on_frame,
                                     OnEnd on_end)
    : loop_(loop),
      on_frame_(std::move(on_frame)),
      on_end_(std::move(on_end)),
      socket_(std::move(socket)) {}

ControlConnection::~ControlConnection() { close(); }

Status ControlConnection::start() {
  return loop_.add_fd(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_events(events); });
}

void ControlConnection::send(FrameType type, ByteView body) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_ || !socket_.valid()) return;
  const std::vector<std::byte> frame = encode_frame(type, body);
  const bool was_empty = outgoing_.empty();
  outgoing_.insert(outgoing_.end(), frame.begin(), frame.end());
  if (!was_empty && outgoing_.size() <= kMaxOutgoingBytes) return;  // the loop is at it
  // A broken connection is reported by the loop, which sees the same end.
  (void)flush_locked();
  if (!outgoing_.empty()) (void)loop_.modify_fd(socket_.get(), EPOLLIN | EPOLLOUT);
}

void ControlConnection::close() {
  int fd = -1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    fd = socket_.get();
  }
  if (fd < 0) return;
  loop_.remove_fd(fd);
  const std::lock_guard<std::mutex> lock(mutex_);
  socket_.reset();
}

void ControlConnection::on_events(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    Status failed;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      failed = flush_locked();
      if (outgoing_.empty() && socket_.valid()) (void)loop_.modify_fd(socket_.get(), EPOLLIN);
    }
    if (!failed.ok()) {
      end(failed);
      return;
    }
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) on_readable();
}

void ControlConnection::on_readable() {
  std::byte buffer[16 * 1024];
  ssize_t count = 0;
  int error_number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    count = ::recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    error_number = errno;
  }
  if (count > 0) {
    const Status fed = splitter_.feed({buffer, static_cast<std::size_t>(count)},
                                      [this](FrameType type, ByteView body) {
                                        if (!ended_.load()) on_frame_(type, body);
                                      });
    if (!fed.ok()) end(fed);
    return;
  }
  if (count == 0) {
    end(Status::error(StatusCode::kUnavailable, {kOperation}, "the peer closed the connection",
                      "connect again"));
  } else if (error_number != EAGAIN && error_number != EINTR) {
    end(Status::system_error(StatusCode::kUnavailable, {kOperation}, "the connection broke",
                             error_number, "connect again"));
  }
}

void ControlConnection::end(const Status& reason) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_.exchange(true)) return;
    loop_.remove_fd(socket_.get());
  }
  on_end_(reason);
}

Status ControlConnection::flush_locked() {
  std::size_t done = 0;
  Status failed;
  while (done < outgoing_.size()) {
    const ssize_t count = ::send(socket_.get(), outgoing_.data() + done, outgoing_.size() - done,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      failed = Status::system_error(StatusCode::kUnavailable, {kOperation}, "the connection broke",
                                    errno, "connect again");
      done = outgoing_.size();
    }
  }
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(done));
  if (outgoing_.size() > kMaxOutgoingBytes) {
    failed = Status::error(StatusCode::kUnavailable, {kOperation},
                           "the peer does not read its control messages", "restart the peer");
    outgoing_.clear();
    ::shutdown(socket_.get(), SHUT_RDWR);  // the loop sees the end and reports it
  }
  return failed;
}

}  // namespace farwrite::device
