#include "memory/mapped_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "memory/background_release.h"
#include "memory/page_policy.h"

namespace farwrite::memory {
namespace {

constexpr ErrorContext kWhere{.operation = "map a peer's segment"};
constexpr const char* kPeerAtFault = "run the same version of Farwrite on both sides";

Status check_seals_and_size(int fd, std::uint64_t expected_bytes, std::uint64_t* backed_bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return Status::system_error(StatusCode::kProtocolError, kWhere,
                                "the descriptor is not a sealable memory file", errno,
                                kPeerAtFault);
  }
  if ((seals & F_SEAL_SHRINK) == 0) {
    return Status::error(
        StatusCode::kProtocolError, kWhere,
        "it is not sealed against shrinking, so its owner could crash this process", kPeerAtFault);
  }
  // Only after the seal was seen: from here on the size cannot fall.
  struct stat info = {};
  if (::fstat(fd, &info) != 0) {
    return Status::system_error(StatusCode::kProtocolError, kWhere, "its size is unknown", errno,
                                kPeerAtFault);
  }
  if (expected_bytes == 0 || static_cast<std::uint64_t>(info.st_size) != expected_bytes) {
    return Status::error(StatusCode::kProtocolError, kWhere,
                         "it has " + std::to_string(info.st_size) + " bytes, not the announced " +
                             std::to_string(expected_bytes),
                         kPeerAtFault);
  }
  *backed_bytes = static_cast<std::uint64_t>(info.st_blocks) * 512;
  return {};
}

}  // namespace

Result<std::shared_ptr<MappedSegment>> MappedSegment::map(core::UniqueFd fd,
                                                          std::uint64_t expected_bytes,
                                                          bool writable,
                                                          std::shared_ptr<const void> witness) {
  std::uint64_t backed_bytes = 0;
  FARWRITE_RETURN_IF_ERROR(check_seals_and_size(fd.get(), expected_bytes, &backed_bytes));
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void* const base = ::mmap(nullptr, expected_bytes, protection, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) {
    if (errno == EPERM || errno == EACCES) {
      return Status::system_error(
          StatusCode::kPermissionDenied, kWhere, "its owner does not allow writing", errno,
          "map it read-only, or write to memory that the peer allocated for this channel");
    }
    return Status::system_error(StatusCode::kResourceExhausted, kWhere,
                                std::to_string(expected_bytes) + " bytes do not fit", errno,
                                "raise `ulimit -v` or vm.max_map_count");
  }
  std::shared_ptr<MappedSegment> segment(new MappedSegment());
  segment->base_ = static_cast<std::byte*>(base);
  segment->bytes_ = expected_bytes;
  segment->writable_ = writable;
  segment->fd_ = std::move(fd);
  segment->witness_ = std::move(witness);
  if (::madvise(base, expected_bytes, MADV_DONTFORK) != 0) {
    return Status::system_error(StatusCode::kUnsupported, kWhere, "madvise(MADV_DONTFORK) failed",
                                errno, "use Linux 5.4 or newer");
  }
  segment->inherited_.emplace(segment->base_, expected_bytes, segment->fd_.get());
  if (transparent_huge_pages_for_shared_memory()) {
    (void)::madvise(base, expected_bytes, MADV_HUGEPAGE);
  }
  // Saves a fault every 64 KiB. Never for a sparse file: filling it would let the peer spend our
  // memory.
  if (backed_bytes >= expected_bytes) populate_for_reading(segment->base_, expected_bytes);
  return segment;
}

std::shared_ptr<MappedSegment> MappedSegment::on_gpu(std::shared_ptr<gpu::GpuMemory> memory,
                                                     bool writable) {
  std::shared_ptr<MappedSegment> segment(new MappedSegment());
  segment->base_ = memory->base();
  segment->bytes_ = memory->bytes();
  segment->writable_ = writable;
  segment->gpu_memory_ = std::move(memory);
  return segment;
}

MappedSegment::~MappedSegment() {
  pin_.reset();
  inherited_.reset();
  if (base_ == nullptr || gpu_memory_ != nullptr || guard_.in_forked_child()) return;
  // The descriptor may be the last that holds the pages of a peer that has gone.
  auto fd = std::make_shared<core::UniqueFd>(std::move(fd_));
  release_in_background(bytes_, [base = base_, bytes = bytes_, fd]() mutable {
    drop_from_mapping(base, bytes);
    ::munmap(base, bytes);
    fd.reset();
  });
}

bool MappedSegment::mapped_by_others() {
  if (!left_) {
    // At the same addresses, so that other threads need not stop using them.
    left_ = ::mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                   fd_.get(), 0) != MAP_FAILED;
    if (!left_) return true;  // tried again with the next call
  }
  return ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE) != 0 && errno == EBUSY;
}

std::byte* MappedSegment::mutable_base() const {
  if (!writable_) {
    std::fputs("farwrite: writable memory was requested from a segment that was mapped read-only\n",
               stderr);
    std::abort();
  }
  return base_;
}

}  // namespace farwrite::memory
