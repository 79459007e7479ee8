// Channel records: what two device layers tell each other through a link's lanes.
//
// LEND travels in a user's lane, in order with its notifications. RETURN travels in the return
// lane, one more than the users', which only pollers serve: a user who takes no notifications must
// not keep leases from coming back.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/fabric.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::device {

// "Look at these bytes of mine; here is your lease."
//   0 u16 1   2 6 zero bytes   8 u64 lease   16 u64 fabric key   24 u64 offset in the segment
//   32 u64 length   40 message
struct LendRecord {
  static constexpr std::size_t kHeaderBytes = 40;

  std::uint64_t lease = 0;  // never 0
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  template <typename Wire>
  void fields(Wire& wire);
  void write(ByteView message, std::vector<std::byte>& record) const;
  // The header; the message is what follows it. Offset and length are for the fabric to check.
  static Result<LendRecord> from_bytes(ByteView record);
};
static_assert(LendRecord::kHeaderBytes <= fabric::kRecordHeadroom);

// "We no longer look at these."
//   0 u16 2   2 6 zero bytes   8 u64 lease, one or more
struct ReturnRecord {
  // More go into another record.
  static constexpr std::size_t kMaxLeases = 256;

  std::vector<std::uint64_t> leases;

  template <typename Wire>
  void fields(Wire& wire);
  void write(std::vector<std::byte>& record) const;
  static Result<ReturnRecord> from_bytes(ByteView record);
};

}  // namespace farwrite::device
