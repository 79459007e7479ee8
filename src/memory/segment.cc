#include "memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "core/log.h"
#include "memory/background_release.h"
#include "memory/page_policy.h"

namespace farwrite::memory {
namespace {

constexpr int kSealFutureWrite = 0x0010;  // Linux 5.1; older C libraries do not name it
constexpr unsigned kMemfd2MiBPages = 21U << 26;
constexpr const char* kHugePageRemedy = "raise vm.nr_hugepages, or turn explicit huge pages off";

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::string describe(const SegmentOptions& options) {
  return "segment '" + options.name + "' of " + std::to_string(options.bytes) + " bytes";
}

Status failure(const SegmentOptions& options, const char* call, const char* remedy) {
  const int error_number = errno;
  const bool exhausted = error_number == ENOMEM || error_number == EMFILE ||
                         error_number == ENFILE || error_number == ENOSPC;
  return Status::system_error(exhausted ? StatusCode::kResourceExhausted : StatusCode::kUnsupported,
                              {.operation = "create memory segment"},
                              std::string(call) + " failed for " + describe(options), error_number,
                              remedy);
}

// Unmapped before the descriptor goes, with the last pages.
struct FileMapping {
  core::UniqueFd fd;
  std::shared_ptr<AddressRange::Slice> place;
};

Result<std::shared_ptr<AddressRange::Slice>> find_place(const SegmentOptions& options,
                                                        std::uint64_t bytes) {
  if (options.place == nullptr) {
    Result<std::shared_ptr<AddressRange>> own = AddressRange::reserve(bytes, options.name);
    if (!own.ok()) return own.status();
    return AddressRange::claim(*own, (*own)->bytes(), (*own)->bytes());
  }
  if (bytes <= options.place->bytes()) return options.place;
  return Status::error(StatusCode::kInvalidArgument, {.operation = "create memory segment"},
                       describe(options) + " is larger than its address range",
                       "claim a larger slice");
}

Result<FileMapping> open_and_map(const SegmentOptions& options, std::uint64_t bytes,
                                 bool explicit_huge) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (explicit_huge) flags |= MFD_HUGETLB | kMemfd2MiBPages;
  FileMapping memory;
  memory.fd.reset(::memfd_create(options.name.c_str(), flags));
  if (!memory.fd.valid()) {
    return failure(options, "memfd_create(2)",
                   explicit_huge ? kHugePageRemedy : "raise `ulimit -n`");
  }
  if (::ftruncate(memory.fd.get(), static_cast<off_t>(bytes)) != 0) {
    return failure(options, "ftruncate(2)", "ask for a smaller segment, or raise `ulimit -f`");
  }
  Result<std::shared_ptr<AddressRange::Slice>> place = find_place(options, bytes);
  if (!place.ok()) return place.status();
  memory.place = std::move(place).value();
  if (::mmap(memory.place->base(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             memory.fd.get(), 0) == MAP_FAILED) {
    return failure(
        options, "mmap(2)",
        explicit_huge ? kHugePageRemedy : "free memory, or raise `ulimit -v` and vm.max_map_count");
  }
  return memory;
}

Status back_with_pages(const SegmentOptions& options, std::byte* base, std::uint64_t bytes,
                       bool explicit_huge) {
  if (::madvise(base, bytes, MADV_DONTFORK) != 0) {
    return failure(options, "madvise(MADV_DONTFORK)", "use Linux 5.4 or newer");
  }
  const bool ask_for_huge = !explicit_huge && options.huge_pages != HugePages::kOff;
  if (ask_for_huge && transparent_huge_pages_for_shared_memory()) {
    (void)::madvise(base, bytes, MADV_HUGEPAGE);  // refused: 4 KiB pages serve as well
  }
  const Status placed = place_on_node(base, bytes, options.numa);
  if (options.numa.required) FARWRITE_RETURN_IF_ERROR(placed);
  if (options.prefault) FARWRITE_RETURN_IF_ERROR(populate_for_writing(base, bytes));
  return {};
}

Status seal(const SegmentOptions& options, int fd) {
  int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (!options.takes_seals) seals |= F_SEAL_SEAL;
  // Spares the owner's own mapping, which is why it comes after mmap. A read-only mapping alone
  // would not do: the code that holds the descriptor could map it again, writable.
  if (options.use == SegmentUse::kExport) seals |= kSealFutureWrite;
  if (::fcntl(fd, F_ADD_SEALS, seals) == 0) return {};
  return failure(options, "fcntl(F_ADD_SEALS)", "use Linux 5.4 or newer");
}

Result<FileMapping> make_memory(const SegmentOptions& options, std::uint64_t bytes,
                                bool explicit_huge) {
  Result<FileMapping> memory = open_and_map(options, bytes, explicit_huge);
  if (!memory.ok()) return memory;
  FARWRITE_RETURN_IF_ERROR(back_with_pages(options, memory->place->base(), bytes, explicit_huge));
  FARWRITE_RETURN_IF_ERROR(seal(options, memory->fd.get()));
  return memory;
}

std::uint32_t next_id() {
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::create(const SegmentOptions& options) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  if (options.bytes == 0 || options.bytes > kMost) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "create memory segment"},
                         describe(options) + " is impossible", "ask for 1 byte to 64 PiB");
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  bool explicit_huge =
      options.huge_pages == HugePages::kExplicit || options.huge_pages == HugePages::kTryExplicit;
  std::uint64_t bytes = round_up(options.bytes, explicit_huge ? kHugePageBytes : page);
  Result<FileMapping> memory = make_memory(options, bytes, explicit_huge);
  if (!memory.ok() && options.huge_pages == HugePages::kTryExplicit) {
    core::log(core::LogLevel::kWarning,
              "no explicit huge pages: " + memory.status().message() + "; using ordinary pages");
    explicit_huge = false;
    bytes = round_up(options.bytes, page);
    memory = make_memory(options, bytes, explicit_huge);
  }
  if (!memory.ok()) return memory.status();

  std::shared_ptr<Segment> segment(new Segment());
  segment->id_ = next_id();
  segment->base_ = memory->place->base();
  segment->bytes_ = bytes;
  segment->fd_ = std::move(memory->fd);
  segment->use_ = options.use;
  segment->explicit_huge_pages_ = explicit_huge;
  segment->place_ = std::move(memory->place);
  segment->inherited_.emplace(segment->base_, bytes, segment->fd());
  return segment;
}

Segment::~Segment() {
  for (const auto& run : at_end_) run();
  pin_.reset();
  inherited_.reset();
  if (place_ == nullptr) return;
  // Shared, because a function is copyable.
  auto memory = std::make_shared<FileMapping>(FileMapping{std::move(fd_), std::move(place_)});
  release_in_background(bytes_, [memory, base = base_, bytes = bytes_]() mutable {
    drop_from_mapping(base, bytes);
    memory.reset();
  });
}

std::shared_ptr<Segment> Segment::on_gpu(std::shared_ptr<gpu::GpuMemory> memory, SegmentUse use) {
  std::shared_ptr<Segment> segment(new Segment());
  segment->id_ = next_id();
  segment->base_ = memory->base();
  segment->bytes_ = memory->bytes();
  segment->use_ = use;
  segment->gpu_memory_ = std::move(memory);
  return segment;
}

}  // namespace farwrite::memory
