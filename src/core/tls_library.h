// TlsLibrary: the few functions of OpenSSL 3 that an encrypted stream needs, opened at run time.
//
// Nothing links OpenSSL and no header of it is needed: who does not encrypt need not have it. The
// constants are part of OpenSSL's binary interface, which is stable within libssl.so.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "farwrite/status.h"

// OpenSSL's own names for its opaque types.
struct ssl_st;
struct ssl_ctx_st;
struct ssl_method_st;
struct bio_st;
struct bio_method_st;

namespace farwrite::core {

struct TlsLibrary {
  static constexpr int kErrorSsl = 1, kErrorWantRead = 2, kErrorZeroReturn = 6;  // SSL_get_error
  static constexpr int kBioControlReset = 1, kBioControlInfo = 3;                // BIO_ctrl

  using ClientKey = unsigned (*)(ssl_st*, const char* hint, char* identity, unsigned identity_bytes,
                                 unsigned char* key, unsigned key_bytes);
  using ServerKey = unsigned (*)(ssl_st*, const char* identity, unsigned char* key,
                                 unsigned key_bytes);

  int (*OPENSSL_init_crypto)(std::uint64_t, const void*);
  const ssl_method_st* (*TLS_method)();
  ssl_ctx_st* (*SSL_CTX_new)(const ssl_method_st*);
  long (*SSL_CTX_ctrl)(ssl_ctx_st*, int, long, void*);
  int (*SSL_CTX_set_ciphersuites)(ssl_ctx_st*, const char*);
  int (*SSL_CTX_set_num_tickets)(ssl_ctx_st*, std::size_t);
  ssl_st* (*SSL_new)(ssl_ctx_st*);
  void (*SSL_free)(ssl_st*);
  void (*SSL_set_bio)(ssl_st*, bio_st*, bio_st*);
  int (*SSL_set_ex_data)(ssl_st*, int, void*);
  void* (*SSL_get_ex_data)(const ssl_st*, int);
  void (*SSL_set_verify)(ssl_st*, int, void*);
  void (*SSL_set_psk_client_callback)(ssl_st*, ClientKey);
  void (*SSL_set_psk_server_callback)(ssl_st*, ServerKey);
  void (*SSL_set_connect_state)(ssl_st*);
  void (*SSL_set_accept_state)(ssl_st*);
  int (*SSL_do_handshake)(ssl_st*);
  int (*SSL_session_reused)(const ssl_st*);
  int (*SSL_version)(const ssl_st*);
  int (*SSL_read)(ssl_st*, void*, int);
  int (*SSL_write)(ssl_st*, const void*, int);
  int (*SSL_pending)(const ssl_st*);
  int (*SSL_key_update)(ssl_st*, int);
  int (*SSL_shutdown)(ssl_st*);
  int (*SSL_get_error)(const ssl_st*, int);
  const bio_method_st* (*BIO_s_mem)();
  bio_st* (*BIO_new)(const bio_method_st*);
  int (*BIO_free)(bio_st*);
  int (*BIO_write)(bio_st*, const void*, int);
  long (*BIO_ctrl)(bio_st*, int, long, void*);
  void (*ERR_clear_error)();
  unsigned long (*ERR_peek_error)();
  const char* (*ERR_reason_error_string)(unsigned long);

  // Opens it once and for all; never closed again, because threads may be inside. kUnavailable
  // names the file that is missing, or the function, and the package to install. Thread-safe.
  static Result<const TlsLibrary*> open();
  // The same for one file, anew. For tests.
  static Result<TlsLibrary> load(const std::string& file);

  // What went wrong in the last call of this thread: OpenSSL's reason number, 0 if it has none.
  int reason() const { return static_cast<int>(ERR_peek_error() & 0x7FFFFF); }
  std::string reason_text() const;
};

}  // namespace farwrite::core
