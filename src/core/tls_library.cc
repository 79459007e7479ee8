#include "core/tls_library.h"

#include <dlfcn.h>

#include <type_traits>

namespace farwrite::core {
namespace {

constexpr const char* kLibraryFile = "libssl.so.3";
constexpr std::uint64_t kInitNoAtExit = 0x00080000;

Status unusable(const std::string& cause) {
  return Status::error(StatusCode::kUnavailable, {"load OpenSSL for encryption"}, cause,
                       "install OpenSSL 3 (package libssl3 on Debian and Ubuntu, openssl-libs on "
                       "Fedora), or leave encrypt off");
}

// Why dlopen or dlsym failed.
std::string why() {
  const char* const text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

}  // namespace

Result<TlsLibrary> TlsLibrary::load(const std::string& file) {
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unusable(file + " cannot be opened: " + why());
  TlsLibrary library{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    void* const symbol = ::dlsym(handle, name);  // libcrypto's are found through libssl
    if (symbol == nullptr && missing.empty()) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
#define FARWRITE_FIND(name) find(library.name, #name)
  FARWRITE_FIND(OPENSSL_init_crypto);
  FARWRITE_FIND(TLS_method);
  FARWRITE_FIND(SSL_CTX_new);
  FARWRITE_FIND(SSL_CTX_ctrl);
  FARWRITE_FIND(SSL_CTX_set_ciphersuites);
  FARWRITE_FIND(SSL_CTX_set_num_tickets);
  FARWRITE_FIND(SSL_new);
  FARWRITE_FIND(SSL_free);
  FARWRITE_FIND(SSL_set_bio);
  FARWRITE_FIND(SSL_set_ex_data);
  FARWRITE_FIND(SSL_get_ex_data);
  FARWRITE_FIND(SSL_set_verify);
  FARWRITE_FIND(SSL_set_psk_client_callback);
  FARWRITE_FIND(SSL_set_psk_server_callback);
  FARWRITE_FIND(SSL_set_connect_state);
  FARWRITE_FIND(SSL_set_accept_state);
  FARWRITE_FIND(SSL_do_handshake);
  FARWRITE_FIND(SSL_session_reused);
  FARWRITE_FIND(SSL_version);
  FARWRITE_FIND(SSL_read);
  FARWRITE_FIND(SSL_write);
  FARWRITE_FIND(SSL_pending);
  FARWRITE_FIND(SSL_key_update);
  FARWRITE_FIND(SSL_shutdown);
  FARWRITE_FIND(SSL_get_error);
  FARWRITE_FIND(BIO_s_mem);
  FARWRITE_FIND(BIO_new);
  FARWRITE_FIND(BIO_free);
  FARWRITE_FIND(BIO_write);
  FARWRITE_FIND(BIO_ctrl);
  FARWRITE_FIND(ERR_clear_error);
  FARWRITE_FIND(ERR_peek_error);
  FARWRITE_FIND(ERR_reason_error_string);
#undef FARWRITE_FIND
  if (!missing.empty()) return unusable(file + " has no " + missing);
  // Our threads may be at work while the process exits: OpenSSL must not clean up under them.
  if (library.OPENSSL_init_crypto(kInitNoAtExit, nullptr) != 1) {
    return unusable(file + " does not initialize: " + library.reason_text());
  }
  return library;
}

Result<const TlsLibrary*> TlsLibrary::open() {
  static Result<TlsLibrary> loaded = load(kLibraryFile);
  if (!loaded.ok()) return loaded.status();
  return static_cast<const TlsLibrary*>(&*loaded);
}

std::string TlsLibrary::reason_text() const {
  const char* const text = ERR_reason_error_string(ERR_peek_error());
  return text == nullptr ? "no reason given" : text;
}

}  // namespace farwrite::core
