// What a device proves to its peers, by the address of the connection.
#pragma once

#include <string>

#include "farwrite/status.h"
#include "farwrite/token.h"

namespace farwrite::device {

struct Secret {
  std::string token;   // empty: none
  std::string origin;  // for errors: "the file /run/user/1000/farwrite/token"
};

struct Secrets {
  // Reads the file that `token` asks for, or makes it.
  static Secrets of(const Token& token);

  // For a connection to an address of the loopback, or to another one. kUnauthenticated if the
  // token for it is missing; or the error of its file.
  const Result<Secret>& at(bool is_loopback) const { return is_loopback ? loopback : elsewhere; }

  Result<Secret> loopback;
  Result<Secret> elsewhere;
};

}  // namespace farwrite::device
