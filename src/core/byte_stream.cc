#include "core/byte_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace farwrite::core {
namespace {

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }

  Moved send(const iovec* pieces, std::size_t count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = count;
    return outcome([&] { return ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); }, false);
  }

  Moved receive(const iovec* pieces, std::size_t count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = count;
    return outcome([&] { return ::recvmsg(fd(), &message, MSG_DONTWAIT); }, true);
  }

 private:
  template <typename Call>
  static Moved outcome(const Call& call, bool zero_is_end) {
    while (true) {
      const ssize_t count = call();
      if (count > 0) return {State::kMoved, static_cast<std::size_t>(count), 0};
      if (count == 0) return {zero_is_end ? State::kEnded : State::kWait, 0, 0};
      if (errno == EAGAIN || errno == ENOBUFS) return {State::kWait, 0, 0};
      if (errno != EINTR) return {State::kEnded, 0, errno};
    }
  }

  const UniqueFd socket_;
};

}  // namespace

void ByteStream::shutdown() const { ::shutdown(fd(), SHUT_RDWR); }

std::unique_ptr<ByteStream> make_plain_stream(UniqueFd socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace farwrite::core
