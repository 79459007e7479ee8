#include "core/byte_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "core/tcp_socket.h"

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_read_range(void* address, unsigned long bytes);
#endif

namespace farwrite::core {
namespace {

// TSan records what sendmsg() reads only after the call. By then the peer may have received the
// bytes and returned the lease on them, and the sender may have reused the memory. So TSan runs
// with intercept_send=0 (CMakePresets.json), and the reads are recorded here, before the call.
void record_reads([[maybe_unused]] const iovec* pieces, [[maybe_unused]] std::size_t count) {
#ifdef __SANITIZE_THREAD__
  for (std::size_t i = 0; i < count; ++i) __tsan_read_range(pieces[i].iov_base, pieces[i].iov_len);
#endif
}

template <typename Call>
ByteStream::Moved outcome(const Call& call, bool zero_is_end) {
  using State = ByteStream::State;
  while (true) {
    const ssize_t count = call();
    if (count > 0) return {State::kMoved, static_cast<std::size_t>(count), 0};
    if (count == 0) return {zero_is_end ? State::kEnded : State::kWait, 0, 0};
    if (errno == EAGAIN || errno == ENOBUFS) return {State::kWait, 0, 0};
    if (errno != EINTR) return {State::kEnded, 0, errno};
  }
}

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(UniqueFd socket) : socket_(std::move(socket)), view_(socket_.get()) {}
  int fd() const override { return socket_.get(); }
  Moved send(const iovec* pieces, std::size_t count) override { return view_.send(pieces, count); }
  Moved receive(const iovec* pieces, std::size_t count) override {
    return view_.receive(pieces, count);
  }

 private:
  const UniqueFd socket_;
  PlainView view_;
};

// Calls `move` with what is left of `bytes` until nothing is.
template <typename Move>
Status move_all(std::byte* data, std::size_t size, const ByteStream& stream, short events,
                Deadline deadline, std::string_view operation, const Move& move) {
  std::size_t done = 0;
  while (done < size) {
    const iovec rest{data + done, size - done};
    const ByteStream::Moved moved = move(rest);
    done += moved.bytes;
    if (moved.state == ByteStream::State::kEnded) return connection_lost(operation, moved.error);
    if (moved.state == ByteStream::State::kWait) {
      FARWRITE_RETURN_IF_ERROR(wait_for(stream.fd(), events, deadline, operation));
    }
  }
  return Status();
}

}  // namespace

void ByteStream::end_sending() { ::shutdown(fd(), SHUT_WR); }

void ByteStream::shutdown() { ::shutdown(fd(), SHUT_RDWR); }

ByteStream::Moved PlainView::send(const iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  record_reads(pieces, count);
  return outcome([&] { return ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT); }, false);
}

ByteStream::Moved PlainView::receive(const iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  return outcome([&] { return ::recvmsg(socket_, &message, MSG_DONTWAIT); }, true);
}

std::unique_ptr<ByteStream> make_plain_stream(UniqueFd socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

Status send_all(ByteStream& stream, ByteView bytes, Deadline deadline, std::string_view operation) {
  return move_all(const_cast<std::byte*>(bytes.data), bytes.size, stream, POLLOUT, deadline,
                  operation, [&](const iovec& rest) { return stream.send(&rest, 1); });
}

Status receive_all(ByteStream& stream, MutableByteView bytes, Deadline deadline,
                   std::string_view operation) {
  return move_all(bytes.data, bytes.size, stream, POLLIN, deadline, operation,
                  [&](const iovec& rest) { return stream.receive(&rest, 1); });
}

}  // namespace farwrite::core
