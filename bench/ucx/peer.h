// Peer: one of the two processes, with its UCX worker, its endpoint and its memory.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>

#include "shared.h"

namespace farwrite::bench::ucx {

// Failures are std::runtime_error. Thread-compatible.
class Peer {
 public:
  // Makes the worker and the memory, and reaches the other process, which does the same.
  Peer(Shared& shared, bool receives, std::uint64_t pool_bytes);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool receives() const { return receives_; }
  Shared& shared() const { return shared_; }
  // The receiver's pool; the sender's source is half as large. The transfers rotate over both.
  std::byte* data() const { return memory_ + kHeader; }
  std::uint64_t data_bytes() const { return data_bytes_; }
  // Where the other process puts the payload of a ping-pong.
  std::byte* echo() const { return memory_ + kEcho; }

  void progress() { ucp_worker_progress(worker_); }
  // Waits until the operation has ended.
  void wait(ucs_status_ptr_t request, const char* what);

  ucs_status_ptr_t send(const std::byte* from, std::uint64_t size, std::uint64_t tag);
  ucs_status_ptr_t receive(std::byte* to, std::uint64_t size, std::uint64_t tag);
  // To the other process's data, or to its echo.
  ucs_status_ptr_t put(const std::byte* from, std::uint64_t size, std::uint64_t offset);
  ucs_status_ptr_t put_echo(const std::byte* from, std::uint64_t size);
  // Puts a flag, behind all earlier puts.
  void raise_flag();
  // Waits for the next flag of the other process.
  void await_flag();

 private:
  static constexpr std::uint64_t kEcho = 4096;
  static constexpr std::uint64_t kHeader = kEcho + (std::uint64_t{1} << 20);

  Shared& shared_;
  const bool receives_;
  const std::uint64_t data_bytes_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_mem_h mapping_ = nullptr;
  std::byte* memory_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  std::uint64_t remote_ = 0;  // address of the other process's memory, as UCX takes it
  std::uint64_t flags_raised_ = 0, flags_taken_ = 0;
};

// Runs this process's side of a loop, between two meetings. The loops are the same as Farwrite's
// (bench/src/p2p_sender.cc, p2p_receiver.cc).
void run(Peer& peer, const Order& order);

}  // namespace farwrite::bench::ucx
