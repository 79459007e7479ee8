// Mailbox: the one small memfd of a receiver that one peer may write.
//
//   MailboxHeader | GrantRow[rows] | LaneControl[lanes] | Cell[lanes][cells]
//
// Every peer gets a mailbox of its own, so a broken or silent peer can spoil only its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/unique_fd.h"
#include "fabric/shm/ring.h"
#include "farwrite/status.h"
#include "memory/segment.h"

namespace farwrite::fabric::shm {

using Nonce = std::array<std::byte, 32>;

// A region the owner lets the peer write. The peer announces itself in `inflight` before it looks
// at `open_region`, the owner clears `open_region` before it looks at `inflight`; so once the owner
// has seen zero, no later byte can land.
struct alignas(64) GrantRow {
  std::atomic<std::uint64_t> open_region;  // region id; 0: closed
  std::atomic<std::uint64_t> inflight;     // writes of the peer under way
};

struct alignas(64) MailboxHeader {
  Nonce nonce;  // reading it back over the socket proves that both processes share memory
};

// What both sides must agree on before they use a mailbox.
struct MailboxGeometry {
  std::uint32_t lanes = 1;
  std::uint32_t cells = 4096;  // per lane, a power of two
  std::uint32_t rows = 4096;

  std::uint64_t bytes() const;
  // Sane and small enough to map; a peer chooses its own.
  bool plausible() const;
};

// Pointers into a mapped mailbox; the mapping must outlive them.
class MailboxView {
 public:
  MailboxView() = default;
  MailboxView(std::byte* base, const MailboxGeometry& geometry)
      : base_(base), geometry_(geometry) {}

  MailboxHeader& header() const { return *reinterpret_cast<MailboxHeader*>(base_); }
  GrantRow& row(std::uint32_t index) const;
  LaneControl& control(std::uint32_t lane) const;
  Cell* cells(std::uint32_t lane) const;
  const MailboxGeometry& geometry() const { return geometry_; }

 private:
  std::byte* base_ = nullptr;
  MailboxGeometry geometry_;
};

// Our own mailbox for one peer, with a fresh nonce in its header.
struct OwnMailbox {
  std::shared_ptr<memory::Segment> segment;
  MailboxView view;
  Nonce nonce{};
  // Shows the peer that forked children may still read its memory: kept as long as such memory is
  // mapped here, which may be longer than the mailbox is used.
  std::shared_ptr<const void> witness;

  static Result<OwnMailbox> create(const MailboxGeometry& geometry);
};

// The peer's mailbox, mapped here.
struct PeerMailbox {
  std::shared_ptr<memory::MappedSegment> segment;
  MailboxView view;
  Nonce nonce{};  // as read once

  static Result<PeerMailbox> map(core::UniqueFd fd, const MailboxGeometry& geometry);
};

}  // namespace farwrite::fabric::shm
