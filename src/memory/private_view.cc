#include "memory/private_view.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "memory/inherited_mapping.h"
#include "memory/page_policy.h"

namespace farwrite::memory {
namespace {

// Of the largest pages that a segment may have; a mapping of those cannot begin elsewhere.
constexpr std::uint64_t kPage = std::uint64_t{2} << 20;

}  // namespace

Result<PrivateView> PrivateView::of(ByteView bytes) {
  PrivateView view;
  view.size_ = bytes.size;
  void* base = MAP_FAILED;
  std::uint64_t before = 0;
  const bool shared = InheritedMapping::find(bytes.data, [&](const InheritedMapping& mapping) {
    const auto offset = static_cast<std::uint64_t>(bytes.data - mapping.base());
    before = offset % kPage;
    const std::uint64_t end =
        std::min((offset + bytes.size + kPage - 1) / kPage * kPage, mapping.bytes());
    view.mapped_ = end - (offset - before);
    base = ::mmap(nullptr, view.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                  mapping.fd(), static_cast<off_t>(offset - before));
  });
  if (!shared) {
    view.mapped_ = std::max<std::uint64_t>(bytes.size, 1);
    base =
        ::mmap(nullptr, view.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (base == MAP_FAILED) {
    return Status::system_error(StatusCode::kResourceExhausted, {.operation = "map a private view"},
                                std::to_string(bytes.size) + " bytes do not fit", errno,
                                "raise `ulimit -v` or vm.max_map_count, or copy the bytes");
  }
  view.base_ = base;
  view.data_ = static_cast<std::byte*>(base) + before;
  if (shared) {
    populate_for_reading(static_cast<std::byte*>(base), view.mapped_);
  } else if (bytes.size > 0) {
    std::memcpy(view.data_, bytes.data, bytes.size);
  }
  return view;
}

PrivateView::~PrivateView() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

}  // namespace farwrite::memory
