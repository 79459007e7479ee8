#include "device/secrets.h"

#include <cstdlib>
#include <utility>

#include "core/token_file.h"

namespace farwrite::device {
namespace {

Secret none() { return {"", "the token option, which is none"}; }

Result<Secret> read_cookie() {
  auto path = core::cookie_path();
  if (!path.ok()) return path.status();
  auto token = core::read_or_make_token(*path, /*make_folders=*/true);
  if (!token.ok()) return token.status();
  return Secret{*std::move(token), "the file " + *path};
}

Secrets of_file(const std::string& path) {
  auto token = core::read_or_make_token(path, /*make_folders=*/false);
  if (!token.ok()) return {token.status(), token.status()};
  // Peers read the origin before the proof: other hosts need not learn the path.
  return {Secret{*token, "the file " + path + " (FARWRITE_TOKEN_FILE)"},
          Secret{*token, "FARWRITE_TOKEN_FILE"}};
}

Status no_token() {
  return Status(
      StatusCode::kUnauthenticated,
      "the address is not on the loopback and no token is set; give all peers one token "
      "(the option token, FARWRITE_TOKEN or FARWRITE_TOKEN_FILE), or set the option to none "
      "to admit every process that reaches the address");
}

}  // namespace

Secrets Secrets::of(const Token& token) {
  if (token.kind() == Token::Kind::kNone) return {none(), none()};
  if (token.kind() == Token::Kind::kSecret) {
    const Secret given{token.secret(), "the option token (or FARWRITE_TOKEN)"};
    return {given, given};
  }
  const char* const file = ::secure_getenv("FARWRITE_TOKEN_FILE");
  if (file != nullptr && *file != '\0') return of_file(file);
  if (token.kind() == Token::Kind::kCookieElseNone) return {read_cookie(), none()};
  return {read_cookie(), no_token()};
}

}  // namespace farwrite::device
