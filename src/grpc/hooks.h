// Hooks: how the library that stands in front of gRPC's (interpose.cc) reaches the component.
//
// The first has no dependency, so that it can be preloaded into any program; the second needs one
// version of gRPC, and is loaded once that version is there.
#pragma once

#include <grpc/slice.h>

#include <cstddef>
#include <cstdint>

namespace farwrite::grpc {

// The arguments of grpc_tcp_create(), as the x86-64 and AArch64 ABIs pass them.
struct PeerText {
  const char* data;
  std::size_t size;
};
using TcpCreate = void* (*)(void* fd, const void* options, PeerText peer);

// absl::Status, as an ABI returns what has a destructor. 0 is OK.
struct GrpcStatus {
  GrpcStatus() = default;
  GrpcStatus(const GrpcStatus& other) : value(other.value) {}
  ~GrpcStatus() {}
  std::uintptr_t value = 0;
};

struct Hooks {
  // Instead of grpc_tcp_create().
  void* (*tcp_create)(TcpCreate original, void* fd, const void* options, PeerText peer);
  // Memory that peers may read; false where there is none.
  bool (*slice_malloc)(std::size_t bytes, grpc_slice* slice);
  // In front of a sleep in gRPC's poller. True: something was delivered, so do not sleep.
  bool (*before_sleep)();
  // Instead of grpc_pollset_work(), which waits for a completion queue's events. True: there may be
  // one now. `deadline` is grpc_core::Timestamp's value.
  bool (*before_work)(void* pollset, std::int64_t deadline);
  // Instead of grpc_pollset_kick() for no worker in particular: the completion queue has an event.
  // True: nothing needs to be woken.
  bool (*has_event)(void* pollset);
  // Once, when the process ends.
  void (*at_exit)();
};

inline constexpr char kHooksFunction[] = "farwrite_grpc_hooks";
using HooksFunction = const Hooks* (*)();

}  // namespace farwrite::grpc
