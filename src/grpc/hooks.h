// Hooks: how the library that stands in front of gRPC's (interpose.cc) reaches the component.
//
// The first has no dependency, so that it can be preloaded into any program; the second needs one
// version of gRPC, and is loaded once that version is there.
#pragma once

#include <grpc/slice.h>

#include <cstddef>

namespace farwrite::grpc {

// The arguments of grpc_tcp_create(), as the x86-64 and AArch64 ABIs pass them.
struct PeerText {
  const char* data;
  std::size_t size;
};
using TcpCreate = void* (*)(void* fd, const void* options, PeerText peer);

struct Hooks {
  // Instead of grpc_tcp_create().
  void* (*tcp_create)(TcpCreate original, void* fd, const void* options, PeerText peer);
  // Memory that peers may read; false where there is none.
  bool (*slice_malloc)(std::size_t bytes, grpc_slice* slice);
  // In front of a sleep in gRPC's poller. True: something was delivered, so do not sleep.
  // `has_events` says whether the poller has events, and is called now and then.
  bool (*before_sleep)(bool (*has_events)(void*), void* argument);
  // Once, when the process ends.
  void (*at_exit)();
};

inline constexpr char kHooksFunction[] = "farwrite_grpc_hooks";
using HooksFunction = const Hooks* (*)();

}  // namespace farwrite::grpc
