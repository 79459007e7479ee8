/// @file
/// Token: the secret that the two sides of a channel prove to each other before any memory is
/// exposed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

/// The secret that both sides of a connection must share. Some rules differ between the loopback
/// (127.0.0.0/8, ::1) and other addresses: the address that the connecting side connects to
/// decides.
class Token {
 public:
  /// What the two sides of a connection must prove.
  enum class Kind : std::uint8_t {
    kCookie,          ///< the cookie of this user, on the loopback only
    kSecret,          ///< a shared secret, at every address
    kNone,            ///< nothing, at every address
    kCookieElseNone,  ///< the cookie on the loopback, nothing at other addresses
  };

  /// The cookie of this user: a random secret in a file that only this user can read. It is valid
  /// only on the loopback. A device at another address does not open, and a connection to such a
  /// device fails.
  ///
  /// The file is $XDG_RUNTIME_DIR/farwrite/token, else ~/.cache/farwrite/token. The first device
  /// creates it. If FARWRITE_TOKEN_FILE names a file, its content is the token at every address.
  Token() = default;
  /// A secret that all peers share, at every address. It must not be empty.
  Token(std::string secret)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kSecret), secret_(std::move(secret)) {}
  /// The same, from a string that ends with a zero byte. The token copies it.
  Token(const char* secret) : Token(std::string(secret)) {}  // NOLINT(google-explicit-constructor)
  /// No proof: every process that reaches the address may connect.
  static Token none() { return Token(Kind::kNone); }
  /// The cookie on the loopback, and no proof at other addresses: as open to other hosts as gRPC.
  static Token cookie_else_none() { return Token(Kind::kCookieElseNone); }

  /// What this token requires.
  Kind kind() const { return kind_; }
  const std::string& secret() const { return secret_; }  ///< the secret of kSecret, else empty

 private:
  explicit Token(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kCookie;
  std::string secret_;
};

FARWRITE_END
