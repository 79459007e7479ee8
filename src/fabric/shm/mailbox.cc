#include "fabric/shm/mailbox.h"

#include <bit>
#include <new>
#include <utility>

#include "core/sha256.h"
#include "memory/inherited_mapping.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::uint32_t kMaxLanes = 65;  // of a user, and the one for returned leases
constexpr std::uint32_t kMaxCells = 1 << 16;
constexpr std::uint32_t kMaxRows = 1 << 16;

std::uint64_t rows_offset() { return sizeof(MailboxHeader); }

std::uint64_t controls_offset(const MailboxGeometry& geometry) {
  return rows_offset() + geometry.rows * sizeof(GrantRow);
}

std::uint64_t cells_offset(const MailboxGeometry& geometry) {
  return controls_offset(geometry) + geometry.lanes * sizeof(LaneControl);
}

struct Witness {
  explicit Witness(std::shared_ptr<memory::Segment> file)
      : segment(std::move(file)), inherited(segment->fd()) {}

  const std::shared_ptr<memory::Segment> segment;
  const memory::InheritedMapping inherited;
};

}  // namespace

std::uint64_t MailboxGeometry::bytes() const {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t exact = cells_offset(*this) + std::uint64_t{lanes} * cells * sizeof(Cell);
  return (exact + kPage - 1) / kPage * kPage;
}

bool MailboxGeometry::plausible() const {
  return lanes >= 1 && lanes <= kMaxLanes && cells >= MailboxGeometry().cells &&
         cells <= kMaxCells && std::has_single_bit(cells) && rows >= 1 && rows <= kMaxRows;
}

GrantRow& MailboxView::row(std::uint32_t index) const {
  return reinterpret_cast<GrantRow*>(base_ + rows_offset())[index];
}

LaneControl& MailboxView::control(std::uint32_t lane) const {
  return reinterpret_cast<LaneControl*>(base_ + controls_offset(geometry_))[lane];
}

Cell* MailboxView::cells(std::uint32_t lane) const {
  return reinterpret_cast<Cell*>(base_ + cells_offset(geometry_)) +
         std::uint64_t{lane} * geometry_.cells;
}

Result<OwnMailbox> OwnMailbox::create(const MailboxGeometry& geometry) {
  memory::SegmentOptions options;
  options.bytes = geometry.bytes();
  options.use = memory::SegmentUse::kLanding;
  options.huge_pages = memory::HugePages::kOff;
  options.name = "farwrite-mailbox";
  options.takes_seals = true;
  auto segment = memory::Segment::create(options);
  if (!segment.ok()) return segment.status();
  OwnMailbox mailbox;
  mailbox.segment = *std::move(segment);
  mailbox.witness = std::make_shared<Witness>(mailbox.segment);
  mailbox.view = MailboxView(mailbox.segment->base(), geometry);
  core::random_bytes({mailbox.nonce.data(), mailbox.nonce.size()});
  // A fresh memfd is all zero, which is the empty state of every ring, row and control.
  new (&mailbox.view.header()) MailboxHeader{mailbox.nonce};
  return mailbox;
}

Result<PeerMailbox> PeerMailbox::map(core::UniqueFd fd, const MailboxGeometry& geometry) {
  auto segment = memory::MappedSegment::map(std::move(fd), geometry.bytes(), /*writable=*/true);
  if (!segment.ok()) return segment.status();
  PeerMailbox mailbox;
  mailbox.segment = *std::move(segment);
  mailbox.view = MailboxView(mailbox.segment->mutable_base(), geometry);
  mailbox.nonce = mailbox.view.header().nonce;
  return mailbox;
}

}  // namespace farwrite::fabric::shm
