// Transfer and Packet: an operation under way, and the pieces in which the wire carries it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/completion_state.h"
#include "fabric/fabric.h"
#include "memory/segment.h"

namespace farwrite::fabric {

// The two sides of a connection are numbers: 0 attached first, 1 second.
using SideIndex = unsigned;

struct SimulatedWindow final : RemoteWindow {
  std::uint64_t key = 0;
  std::uint64_t base = 0;                    // of the region, in its segment
  std::shared_ptr<memory::Segment> mapping;  // keeps `mapped` valid, even after the peer's death
};

// "write", for error sentences.
inline std::string_view name_of(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kWrite:
      return "write";
    case OperationKind::kRead:
      return "read";
    case OperationKind::kNotify:
      return "notify";
    case OperationKind::kMessage:
      return "send";
    case OperationKind::kFlush:
      return "flush";
    case OperationKind::kRecord:
      return "tell";
    case OperationKind::kEnd:
      return "end";
  }
  return "operation";
}

// One posted operation, until the last byte of it has moved.
struct Transfer {
  std::uint64_t id = 0;  // in the order of posting, over both sides
  SideIndex from = 0;
  std::uint32_t lane = 0;
  Operation operation;
  std::uint64_t sequence = 0;      // of its notification in its lane
  std::vector<std::byte> fetched;  // the source, once the simulated card has copied it
  std::size_t chunks_left = 0;
  bool tail_landed = false;
  bool over = false;                                  // no byte of it moves any more
  Status failure;                                     // why the target refused it
  std::shared_ptr<core::CompletionState> completion;  // none once the poster has its outcome

  bool notifies() const {
    return operation.notify || operation.kind == OperationKind::kNotify ||
           operation.kind == OperationKind::kMessage || operation.kind == OperationKind::kRecord;
  }
};

enum class PacketKind : std::uint8_t {
  kChunk,         // bytes of a write or read
  kFetch,         // the card has fetched the source: local_complete before the bytes land
  kNotification,  // may be lost or doubled; numbered, so that the receiver can tell
  kFlush,
};

struct Packet {
  PacketKind kind = PacketKind::kChunk;
  std::shared_ptr<Transfer> transfer;
  std::uint64_t offset = 0;  // of the chunk in its transfer
  std::uint64_t length = 0;
};

}  // namespace farwrite::fabric
