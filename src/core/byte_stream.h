// ByteStream: a connected, non-blocking stream of bytes, plain or encrypted.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>

#include "core/unique_fd.h"

namespace farwrite::core {

// One thread may send while another receives. Nothing here blocks or raises a signal.
class ByteStream {
 public:
  enum class State {
    kMoved,  // `bytes` moved, at least one
    kWait,   // not now: wait on fd()
    kEnded,  // over: `error` is an errno, 0 when the peer ended it in good order
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
  virtual Moved send(const iovec* pieces, std::size_t count) = 0;
  virtual Moved receive(const iovec* pieces, std::size_t count) = 0;
  // Whether receive() has bytes though fd() stays silent: they are decrypted already.
  virtual bool has_unread() const { return false; }
  // Ends both directions; what has arrived can still be received. From any thread.
  void shutdown() const;
};

// The bytes as they are. Takes a connected, non-blocking socket.
std::unique_ptr<ByteStream> make_plain_stream(UniqueFd socket);

}  // namespace farwrite::core
