// ByteStream: a connected, non-blocking stream of bytes, plain or encrypted.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string_view>

#include "core/deadline.h"
#include "core/unique_fd.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::core {

// One thread may send while another receives. Nothing but establish() blocks, and nothing raises a
// signal.
class ByteStream {
 public:
  enum class State {
    kMoved,  // `bytes` moved, at least one
    kWait,   // not now: wait on fd()
    kEnded,  // over: `error` is an errno, 0 when the peer ended it normally
  };
  struct Moved {
    State state = State::kWait;
    std::size_t bytes = 0;
    int error = 0;
  };

  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  virtual int fd() const = 0;
  // What both sides agree on before the first byte. Blocks; once, before anything is sent or
  // received. tls_stream.h says how it fails; a plain stream has nothing to agree on.
  virtual Status establish(Deadline /*deadline*/, std::string_view /*operation*/) {
    return Status();
  }
  // What was not taken, in full or in part, is offered again next: the same bytes, wherever they
  // lie by then, and more behind them if there is more.
  virtual Moved send(const iovec* pieces, std::size_t count) = 0;
  virtual Moved receive(const iovec* pieces, std::size_t count) = 0;
  // Whether receive() has news though fd() stays silent: bytes that were taken from it already. For
  // the receiving thread.
  virtual bool has_unread() const { return false; }
  // Ends the sending direction: the peer reads an end behind what was sent. From any thread.
  virtual void end_sending();
  // Ends both directions; what has arrived can still be received. From any thread.
  virtual void shutdown();
};

// The bytes as they are, over a non-blocking socket that something else owns and keeps open.
class PlainView final : public ByteStream {
 public:
  explicit PlainView(int socket) : socket_(socket) {}
  int fd() const override { return socket_; }
  Moved send(const iovec* pieces, std::size_t count) override;
  Moved receive(const iovec* pieces, std::size_t count) override;

 private:
  const int socket_;
};

// The same, and takes the socket.
std::unique_ptr<ByteStream> make_plain_stream(UniqueFd socket);

// Sends or receives all of `bytes`. kUnavailable when the peer is gone, kDeadlineExceeded.
Status send_all(ByteStream& stream, ByteView bytes, Deadline deadline, std::string_view operation);
Status receive_all(ByteStream& stream, MutableByteView bytes, Deadline deadline,
                   std::string_view operation);

}  // namespace farwrite::core
