#include "core/tls_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "core/mutex.h"

namespace farwrite::core {
namespace {

// A record: {u8 type, u16 version, u16 length}, big-endian, and at most this many bytes.
constexpr std::size_t kRecordHeaderBytes = 5;
constexpr std::size_t kMaxRecordBytes = 16384 + 256;
constexpr std::size_t kPlainBytes = 16384;  // at most in one record
constexpr int kRecordsPerFlush = 4;
// One call moves no more, however fast the other side is: callers hold locks meanwhile.
constexpr std::size_t kMostPerCall = std::size_t{4} << 20;

// Goes through the pieces that a caller offers, record by record.
class Offer {
 public:
  Offer(const iovec* pieces, std::size_t count, std::size_t skip) : piece_(pieces), count_(count) {
    while (skip > 0 && settle()) {
      const std::size_t step = std::min(skip, piece_->iov_len - at_);
      at_ += step;
      skip -= step;
    }
  }
  // The next bytes, at most a record; empty at the end. `room` holds a record: bytes that lie apart
  // are put together there.
  ByteView next(std::byte* room) {
    if (!settle()) return {};
    const auto* const data = static_cast<const std::byte*>(piece_->iov_base) + at_;
    const std::size_t rest = piece_->iov_len - at_;
    if (rest >= kPlainBytes || count_ == 1) {
      const std::size_t size = std::min(rest, kPlainBytes);
      at_ += size;
      return {data, size};
    }
    std::size_t filled = 0;
    while (filled < kPlainBytes && settle()) {
      const std::size_t step = std::min(kPlainBytes - filled, piece_->iov_len - at_);
      std::memcpy(room + filled, static_cast<const std::byte*>(piece_->iov_base) + at_, step);
      at_ += step;
      filled += step;
    }
    return {room, filled};
  }

 private:
  // To a piece with something left; false if there is none.
  bool settle() {
    while (count_ > 0 && at_ == piece_->iov_len) {
      ++piece_;
      --count_;
      at_ = 0;
    }
    return count_ > 0;
  }

  const iovec* piece_;
  std::size_t count_;
  std::size_t at_ = 0;
};

}  // namespace

TlsStream::~TlsStream() {
  const Lock lock(mutex_);
  say_good_bye_locked();
  if (ssl_ != nullptr) library_.SSL_free(ssl_);
  ::explicit_bzero(key_.data(), key_.size());
}

bool TlsStream::flush_locked() {
  if (send_error_ != 0) return false;
  const char* data = nullptr;
  const long size = library_.BIO_ctrl(out_, TlsLibrary::kBioControlInfo, 0, &data);
  const std::size_t all = size > 0 ? static_cast<std::size_t>(size) : 0;
  while (flushed_ < all) {
    const ssize_t count =
        ::send(fd(), data + flushed_, all - flushed_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      flushed_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      return false;
    } else if (errno != EINTR) {
      send_error_ = errno;
      return false;
    }
  }
  if (all > 0) library_.BIO_ctrl(out_, TlsLibrary::kBioControlReset, 0, nullptr);
  flushed_ = 0;
  return true;
}

bool TlsStream::encrypt_locked(const std::byte* data, std::size_t size) {
  constexpr int kPeerKeepsItsKey = 0;
  library_.ERR_clear_error();
  if (records_ >= records_per_key_) {
    if (library_.SSL_key_update(ssl_, kPeerKeepsItsKey) != 1) return false;
    records_ = 0;
  }
  ++records_;
  // Memory takes it all: a record is never refused for want of room, nor taken in part.
  const bool taken =
      library_.SSL_write(ssl_, data, static_cast<int>(size)) == static_cast<int>(size);
  if (!taken) library_.ERR_clear_error();
  return taken;
}

ByteStream::Moved TlsStream::send(const iovec* pieces, std::size_t count) {
  std::array<std::byte, kPlainBytes> room;
  const Lock lock(mutex_);
  if (!flush_locked()) {
    return send_error_ != 0 ? Moved{State::kEnded, 0, send_error_} : Moved{};
  }
  // What an earlier call encrypted is out by now: the caller offers it again, and learns it here.
  std::size_t told = std::exchange(untold_, 0);
  Offer offer(pieces, count, told);
  while (send_error_ == 0 && told < kMostPerCall) {
    std::size_t batch = 0;
    for (int record = 0; record < kRecordsPerFlush; ++record) {
      const ByteView bytes = offer.next(room.data());
      if (bytes.size == 0) break;
      if (!encrypt_locked(bytes.data, bytes.size)) {
        send_error_ = EPROTO;
        break;
      }
      batch += bytes.size;
    }
    if (batch == 0) break;
    if (!flush_locked()) {
      untold_ = batch;
      break;
    }
    told += batch;
  }
  if (told > 0) return {State::kMoved, told, 0};
  return send_error_ != 0 ? Moved{State::kEnded, 0, send_error_} : Moved{};
}

ByteStream::Moved TlsStream::receive(const iovec* pieces, std::size_t count) {
  std::size_t done = 0;
  for (std::size_t piece = 0; piece < count; ++piece) {
    auto* const data = static_cast<std::byte*>(pieces[piece].iov_base);
    std::size_t at = 0;
    while (at < pieces[piece].iov_len) {
      Moved moved;
      {
        const Lock lock(mutex_);
        moved = read_locked(data + at, pieces[piece].iov_len - at);
      }
      at += moved.bytes;
      done += moved.bytes;
      if (moved.state == State::kMoved && done < kMostPerCall) continue;
      if (moved.state == State::kWait) {
        const Arrived arrived = take_in();
        if (arrived == Arrived::kBytes) continue;
        if (arrived == Arrived::kEnd) {
          const Lock lock(mutex_);
          const bool cut_off = socket_error_ == 0 && !said_good_bye_;
          moved = end_locked(cut_off ? ECONNRESET : socket_error_);
        }
      }
      // An end is told next time, if something came before it.
      return done > 0 ? Moved{State::kMoved, done, 0} : moved;
    }
  }
  return {State::kMoved, done, 0};
}

ByteStream::Moved TlsStream::read_locked(std::byte* data, std::size_t size) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  if (ended_) return {State::kEnded, 0, error_};
  while (true) {
    library_.ERR_clear_error();
    const int count = library_.SSL_read(ssl_, data, static_cast<int>(std::min(size, kMost)));
    if (count > 0) return {State::kMoved, static_cast<std::size_t>(count), 0};
    const int error = library_.SSL_get_error(ssl_, count);
    if (error == TlsLibrary::kErrorWantRead && feed_locked()) continue;
    // What OpenSSL has to say itself goes out now, or before the next send.
    (void)flush_locked();
    if (error == TlsLibrary::kErrorWantRead) return {};
    library_.ERR_clear_error();
    return end_locked(error == TlsLibrary::kErrorZeroReturn ? 0 : EBADMSG);
  }
}

ByteStream::Moved TlsStream::end_locked(int error) {
  if (!std::exchange(ended_, true)) error_ = error;
  return {State::kEnded, 0, error_};
}

TlsStream::Arrived TlsStream::take_in() {
  if (taken_ > 0) {
    std::memmove(incoming_.get(), incoming_.get() + taken_, arrived_ - taken_);
    arrived_ -= taken_;
    taken_ = 0;
  }
  while (true) {
    const ssize_t count =
        ::recv(fd(), incoming_.get() + arrived_, kIncomingBytes - arrived_, MSG_DONTWAIT);
    if (count > 0) {
      arrived_ += static_cast<std::size_t>(count);
      return Arrived::kBytes;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return Arrived::kNothing;
    socket_error_ = count < 0 ? errno : 0;
    return Arrived::kEnd;
  }
}

std::size_t TlsStream::whole_records() const {
  std::size_t end = taken_;
  while (arrived_ - end >= kRecordHeaderBytes) {
    const std::size_t length = std::to_integer<std::size_t>(incoming_[end + 3]) << 8 |
                               std::to_integer<std::size_t>(incoming_[end + 4]);
    if (length > kMaxRecordBytes) return arrived_ - taken_;  // no record: OpenSSL refuses it
    if (arrived_ - end - kRecordHeaderBytes < length) break;
    end += kRecordHeaderBytes + length;
  }
  return end - taken_;
}

bool TlsStream::feed_locked() {
  const std::size_t size = whole_records();
  if (size == 0) return false;
  library_.BIO_write(in_, incoming_.get() + taken_, static_cast<int>(size));
  taken_ += size;
  return true;
}

bool TlsStream::has_unread() const {
  const Lock lock(mutex_);
  if (ended_ || whole_records() > 0 || library_.SSL_pending(ssl_) > 0) return true;
  const char* data = nullptr;
  return library_.BIO_ctrl(in_, TlsLibrary::kBioControlInfo, 0, &data) > 0;
}

void TlsStream::end_sending() {
  {
    const Lock lock(mutex_);
    say_good_bye_locked();
  }
  ByteStream::end_sending();
}

void TlsStream::shutdown() {
  {
    const Lock lock(mutex_);
    say_good_bye_locked();
  }
  ByteStream::shutdown();
}

void TlsStream::say_good_bye_locked() {
  // A forked child must not speak on its parent's connection. What is half out cannot be followed.
  if (!established_ || ended_ || said_good_bye_ || fork_guard_.in_forked_child()) return;
  said_good_bye_ = true;
  if (!flush_locked()) return;
  library_.ERR_clear_error();
  (void)library_.SSL_shutdown(ssl_);
  (void)flush_locked();
  library_.ERR_clear_error();
}

}  // namespace farwrite::core
