// Token: what the two sides of a channel prove to each other before any memory is exposed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "farwrite/export.h"

namespace farwrite {

// Both sides of a connection must have the same one. The address that the connecting side connects
// to decides where a rule differs between the loopback (127.0.0.0/8, ::1) and other addresses.
class FARWRITE_API Token {
 public:
  enum class Kind : std::uint8_t { kCookie, kSecret, kNone, kCookieElseNone };

  // The cookie of this user: a random secret in a file that only this user can read. On the
  // loopback alone; a device at another address does not open, and a connection to one fails.
  // The file is $XDG_RUNTIME_DIR/farwrite/token, else ~/.cache/farwrite/token; the first device
  // makes it. If FARWRITE_TOKEN_FILE names a file, its content is the token at every address.
  Token() = default;
  // A secret that all peers share, at every address. Not empty.
  Token(std::string secret)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kSecret), secret_(std::move(secret)) {}
  Token(const char* secret) : Token(std::string(secret)) {}  // NOLINT(google-explicit-constructor)
  // No proof: every process that reaches the address may connect.
  static Token none() { return Token(Kind::kNone); }
  // The cookie on the loopback, no proof at other addresses: as open to other hosts as gRPC.
  static Token cookie_else_none() { return Token(Kind::kCookieElseNone); }

  Kind kind() const { return kind_; }
  const std::string& secret() const { return secret_; }  // of kSecret; else empty

 private:
  explicit Token(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kCookie;
  std::string secret_;
};

}  // namespace farwrite
