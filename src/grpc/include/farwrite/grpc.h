/// @file
/// gRPC over Farwrite, for programs that link it: name libfarwrite_grpc in front of libgrpc++.
/// Other programs run under `farwrite run --grpc` instead. docs/how-to/grpc.md.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// Carries the bytes of the gRPC connections that are made from now on over Farwrite, where the
/// peer does so as well; the others stay on TCP. Returns null, or a sentence that says why it
/// cannot: it is valid until the next call. Thread-safe if the calls do not overlap.
__attribute__((visibility("default"))) const char* farwrite_grpc_enable(void);

#ifdef __cplusplus
}

#include <string>

namespace farwrite::grpc {

/// The same as farwrite_grpc_enable(). Empty: it is on.
inline std::string Enable() {  // NOLINT(readability-identifier-naming): as gRPC names functions
  const char* const why = farwrite_grpc_enable();
  return why == nullptr ? std::string() : std::string(why);
}

}  // namespace farwrite::grpc
#endif
