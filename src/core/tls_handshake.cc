// How a TlsStream begins: the context, the key, the handshake.
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "core/mutex.h"
#include "core/tcp_socket.h"
#include "core/tls_stream.h"
#include "core/with_memory.h"

namespace farwrite::core {
namespace {

constexpr std::string_view kIdentity = "farwrite";
// Both hash with SHA-256, to which a plain pre-shared key is bound.
constexpr const char* kCipherSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

constexpr std::byte kHandshakeRecord{22}, kAlertRecord{21};

// OpenSSL's reason numbers. Those from 1000 on are alerts of the peer.
constexpr int kBinderDoesNotVerify = 253, kCertificateVerifyFailed = 134, kWrongVersion = 267,
              kAlertIllegalParameter = 1047, kAlertDecryptError = 1051,
              kAlertInsufficientSecurity = 1071;

ssl_ctx_st* make_context(const TlsLibrary& library) {
  constexpr int kMode = 33, kSessionCacheMode = 44, kMinVersion = 123, kMaxVersion = 124;
  constexpr long kTls13 = 0x0304, kPartialWrite = 1, kMovingBuffer = 2, kCacheOff = 0;
  ssl_ctx_st* const context = library.SSL_CTX_new(library.TLS_method());
  if (context == nullptr) return nullptr;
  const bool set = library.SSL_CTX_ctrl(context, kMinVersion, kTls13, nullptr) == 1 &&
                   library.SSL_CTX_ctrl(context, kMaxVersion, kTls13, nullptr) == 1 &&
                   library.SSL_CTX_set_ciphersuites(context, kCipherSuites) == 1 &&
                   library.SSL_CTX_set_num_tickets(context, 0) == 1;
  library.SSL_CTX_ctrl(context, kSessionCacheMode, kCacheOff, nullptr);
  library.SSL_CTX_ctrl(context, kMode, kPartialWrite | kMovingBuffer, nullptr);
  return set ? context : nullptr;
}

// The one context of this process; it holds no key, so all streams share it.
ssl_ctx_st* shared_context(const TlsLibrary& library) {
  static ssl_ctx_st* const context = make_context(library);
  return context;
}

Status other_does_not_encrypt(std::string_view operation) {
  return Status::error(StatusCode::kFailedPrecondition, {operation},
                       "this side encrypts and the peer does not",
                       "set encrypt on both sides, or on neither; if the peer is no Farwrite "
                       "device, another program has the port");
}

}  // namespace

Digest tls_key(ByteView secret, std::string_view purpose) {
  return hmac_sha256(secret, {purpose.data(), purpose.size()});
}

Result<std::unique_ptr<ByteStream>> TlsStream::create(UniqueFd socket, const Digest& key,
                                                      TlsSide side, std::uint64_t records_per_key) {
  auto library = TlsLibrary::open();
  if (!library.ok()) return library.status();
  std::unique_ptr<TlsStream> stream(
      new TlsStream(**library, std::move(socket), key, records_per_key));
  if (stream->incoming_ == nullptr) {
    return no_memory({"encrypt"}, "what arrives");
  }
  FARWRITE_RETURN_IF_ERROR(stream->start(shared_context(**library), side));
  return std::unique_ptr<ByteStream>(std::move(stream));
}

TlsStream::TlsStream(const TlsLibrary& library, UniqueFd socket, const Digest& key,
                     std::uint64_t records_per_key)
    : library_(library),
      socket_(std::move(socket)),
      key_(key),
      records_per_key_(records_per_key),
      incoming_(new (std::nothrow) std::byte[kIncomingBytes]) {}

Status TlsStream::start(ssl_ctx_st* context, TlsSide side) {
  const Lock lock(mutex_);
  library_.ERR_clear_error();
  if (context != nullptr) {
    ssl_ = library_.SSL_new(context);
    in_ = library_.BIO_new(library_.BIO_s_mem());
    out_ = library_.BIO_new(library_.BIO_s_mem());
  }
  if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) {
    if (in_ != nullptr) library_.BIO_free(in_);
    if (out_ != nullptr) library_.BIO_free(out_);
    return Status::error(StatusCode::kUnavailable, {"encrypt"},
                         "OpenSSL does not provide TLS 1.3 on this host: " + library_.reason_text(),
                         "see the system's openssl.cnf, or leave encrypt off");
  }
  library_.SSL_set_bio(ssl_, in_, out_);
  library_.SSL_set_ex_data(ssl_, 0, this);
  if (side == TlsSide::kConnecting) {
    constexpr int kVerifyPeer = 1;
    // An accepting side may answer with a certificate instead of the key. No certificate is
    // trusted.
    library_.SSL_set_verify(ssl_, kVerifyPeer, nullptr);
    library_.SSL_set_psk_client_callback(ssl_, &give_client_key);
    library_.SSL_set_connect_state(ssl_);
  } else {
    library_.SSL_set_psk_server_callback(ssl_, &give_server_key);
    library_.SSL_set_accept_state(ssl_);
  }
  return Status();
}

unsigned TlsStream::give_client_key(ssl_st* ssl, const char* /*hint*/, char* identity,
                                    unsigned identity_bytes, unsigned char* key,
                                    unsigned key_bytes) {
  auto library = TlsLibrary::open();
  const auto* const self = static_cast<const TlsStream*>((*library)->SSL_get_ex_data(ssl, 0));
  if (identity_bytes <= kIdentity.size() || key_bytes < self->key_.size()) return 0;
  std::memcpy(identity, kIdentity.data(), kIdentity.size());
  identity[kIdentity.size()] = '\0';
  std::memcpy(key, self->key_.data(), self->key_.size());
  return static_cast<unsigned>(self->key_.size());
}

unsigned TlsStream::give_server_key(ssl_st* ssl, const char* identity, unsigned char* key,
                                    unsigned key_bytes) {
  auto library = TlsLibrary::open();
  const auto* const self = static_cast<const TlsStream*>((*library)->SSL_get_ex_data(ssl, 0));
  if (identity == nullptr || identity != kIdentity || key_bytes < self->key_.size()) return 0;
  std::memcpy(key, self->key_.data(), self->key_.size());
  return static_cast<unsigned>(self->key_.size());
}

Status TlsStream::establish(Deadline deadline, std::string_view operation) {
  bool first = true;
  bool done = false;
  while (true) {
    Status stepped = step(operation, done);
    FARWRITE_RETURN_IF_ERROR(wait_until_flushed(deadline, operation));
    if (!stepped.ok()) return stepped;
    if (done) return Status();
    switch (take_in()) {
      case Arrived::kBytes:
        if (std::exchange(first, false) && incoming_[0] != kHandshakeRecord &&
            incoming_[0] != kAlertRecord) {
          return other_does_not_encrypt(operation);
        }
        break;
      case Arrived::kNothing:
        FARWRITE_RETURN_IF_ERROR(wait_for(fd(), POLLIN, deadline, operation));
        break;
      case Arrived::kEnd:
        return Status::error(
            StatusCode::kUnavailable, {operation},
            "the peer closed the connection during the TLS handshake",
            "see the peer's log for the reason; both sides need encrypt and the same token");
    }
  }
}

Status TlsStream::step(std::string_view operation, bool& done) {
  const Lock lock(mutex_);
  while (true) {
    library_.ERR_clear_error();
    const int result = library_.SSL_do_handshake(ssl_);
    if (result == 1) break;
    if (library_.SSL_get_error(ssl_, result) != TlsLibrary::kErrorWantRead) {
      ended_ = true;
      return refusal(operation);
    }
    if (!feed_locked()) return Status();
  }
  constexpr int kTls13 = 0x0304;
  // "Reused" is what OpenSSL calls a handshake that rests on the key.
  if (library_.SSL_session_reused(ssl_) != 1 || library_.SSL_version(ssl_) != kTls13) {
    ended_ = true;
    return Status::error(StatusCode::kUnauthenticated, {operation},
                         "the peer did not prove the shared key", "give both sides the same key");
  }
  ::explicit_bzero(key_.data(), key_.size());
  established_ = true;
  done = true;
  return Status();
}

Status TlsStream::refusal(std::string_view operation) const {
  const int reason = library_.reason();
  const std::string text = library_.reason_text();
  library_.ERR_clear_error();  // the thread's other users of OpenSSL have no business with it
  switch (reason) {
    case kAlertInsufficientSecurity:
    case kWrongVersion:
      return other_does_not_encrypt(operation);
    case kBinderDoesNotVerify:
    case kAlertIllegalParameter:
    case kAlertDecryptError:
    case kCertificateVerifyFailed:
      return Status::error(StatusCode::kUnauthenticated, {operation},
                           "the peer's key differs from this side's key (" + text + ")",
                           "give both sides the same key");
    default:
      return Status::error(StatusCode::kProtocolError, {operation},
                           "the peer broke the TLS handshake: " + text,
                           "check that the peer is a Farwrite device that encrypts");
  }
}

Status TlsStream::wait_until_flushed(Deadline deadline, std::string_view operation) {
  while (true) {
    {
      const Lock lock(mutex_);
      // What broke the connection may have sent its reason before: read on.
      if (flush_locked() || send_error_ != 0) return Status();
    }
    FARWRITE_RETURN_IF_ERROR(wait_for(fd(), POLLOUT, deadline, operation));
  }
}

}  // namespace farwrite::core
