// How the program fails.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

// Ends the process at once, with a sentence on stderr and status 1.
[[noreturn]] inline void fail(const std::string& problem) {
  std::fprintf(stderr, "grpc_payloads: %s\n", problem.c_str());
  std::_Exit(1);
}
