// TlsStream: a ByteStream under TLS 1.3, between two sides that share a key.
//
// The key is an external pre-shared one (RFC 8446, section 2.2) and always goes with a fresh
// Diffie-Hellman exchange, so what was recorded stays secret when the key gets known. There are no
// certificates, tickets or earlier versions. OpenSSL only turns bytes into records and back, in
// memory; this class moves the records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/byte_stream.h"
#include "core/fork_guard.h"
#include "core/mutex.h"
#include "core/sha256.h"
#include "core/tls_library.h"

namespace farwrite::core {

enum class TlsSide { kConnecting, kAccepting };

// A key under `secret`, for `purpose` and nothing else.
Digest tls_key(ByteView secret, std::string_view purpose);

// establish() fails with kUnauthenticated if the other side has another key, kFailedPrecondition if
// it does not encrypt, kUnavailable if it hangs up, kProtocolError for anything else that is no
// TLS 1.3, and kDeadlineExceeded.
//
// A record that is not what the peer sent ends the stream with EBADMSG, an end of the connection
// without the peer's good-bye with ECONNRESET.
class TlsStream final : public ByteStream {
 public:
  // Records under one key, either way; then the sender makes another one. Far below what AES-GCM
  // bears (RFC 8446, section 5.5).
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

  static constexpr std::size_t kIncomingBytes = std::size_t{64} << 10;

  // Takes a connected, non-blocking socket. kUnavailable without OpenSSL.
  static Result<std::unique_ptr<ByteStream>> create(UniqueFd socket, const Digest& key,
                                                    TlsSide side,
                                                    std::uint64_t records_per_key = kRecordsPerKey);
  ~TlsStream() override;

  int fd() const override { return socket_.get(); }
  Status establish(Deadline deadline, std::string_view operation) override;
  Moved send(const iovec* pieces, std::size_t count) override;
  Moved receive(const iovec* pieces, std::size_t count) override;
  bool has_unread() const override;
  // Both send the good-bye first, as far as the socket takes it.
  void end_sending() override;
  void shutdown() override;

 private:
  // What the socket gave.
  enum class Arrived { kBytes, kNothing, kEnd };

  TlsStream(const TlsLibrary& library, UniqueFd socket, const Digest& key,
            std::uint64_t records_per_key);
  static unsigned give_client_key(ssl_st* ssl, const char* hint, char* identity,
                                  unsigned identity_bytes, unsigned char* key, unsigned key_bytes);
  static unsigned give_server_key(ssl_st* ssl, const char* identity, unsigned char* key,
                                  unsigned key_bytes);
  Status start(ssl_ctx_st* context, TlsSide side);
  // One step of the handshake: ok and `done`, ok and bytes are wanted, or why it failed.
  Status step(std::string_view operation, bool& done);
  Status wait_until_flushed(Deadline deadline, std::string_view operation);
  // Out of OpenSSL's memory into the socket. False if something is left, or the connection broke.
  bool flush_locked() FW_REQUIRES(mutex_);
  bool encrypt_locked(const std::byte* data, std::size_t size) FW_REQUIRES(mutex_);
  Moved read_locked(std::byte* data, std::size_t size) FW_REQUIRES(mutex_);
  Arrived take_in();
  // Gives OpenSSL the whole records that are there; false if there is none.
  bool feed_locked() FW_REQUIRES(mutex_);
  std::size_t whole_records() const;
  void say_good_bye_locked() FW_REQUIRES(mutex_);
  Moved end_locked(int error) FW_REQUIRES(mutex_);
  Status refusal(std::string_view operation) const;

  const TlsLibrary& library_;
  const UniqueFd socket_;
  Digest key_;  // OpenSSL's callbacks come for it; wiped once established
  const ForkGuard fork_guard_;
  const std::uint64_t records_per_key_;

  // OpenSSL's object is for one thread at a time. A leaf: nothing is called with it held.
  mutable Mutex mutex_{LockRank::kCore};
  ssl_st* ssl_ FW_GUARDED_BY(mutex_) = nullptr;
  bio_st* in_ FW_GUARDED_BY(mutex_) = nullptr;     // records for OpenSSL, whole ones; owned by ssl_
  bio_st* out_ FW_GUARDED_BY(mutex_) = nullptr;    // records of OpenSSL; owned by ssl_
  std::size_t flushed_ FW_GUARDED_BY(mutex_) = 0;  // of the bytes in out_, those the socket has
  std::size_t untold_ FW_GUARDED_BY(mutex_) =
      0;  // bytes encrypted, of which the caller does not know yet
  std::uint64_t records_ FW_GUARDED_BY(mutex_) = 0;  // sent under the present key
  bool established_ FW_GUARDED_BY(mutex_) = false;
  bool said_good_bye_ FW_GUARDED_BY(mutex_) = false;
  bool ended_ FW_GUARDED_BY(mutex_) = false;
  int error_ FW_GUARDED_BY(mutex_) = 0;       // why it ended
  int send_error_ FW_GUARDED_BY(mutex_) = 0;  // why nothing can be sent any more

  // The receiving thread's own: what came from the socket, [taken_, arrived_).
  const std::unique_ptr<std::byte[]> incoming_;  // of kIncomingBytes
  std::size_t taken_ = 0, arrived_ = 0;
  int socket_error_ = 0;  // why nothing more comes, 0 for an end
};

}  // namespace farwrite::core
