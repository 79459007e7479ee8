#include "fabric/verbs/lane_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace farwrite::fabric::verbs {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

Result<std::unique_ptr<LaneMemory>> LaneMemory::create(VerbsLibrary& library, ibv_pd* domain,
                                                       std::uint32_t receives, std::uint32_t sends,
                                                       const std::string& device, bool iwarp) {
  std::unique_ptr<LaneMemory> memory(new LaneMemory(library, receives, sends));
  const std::size_t buffers =
      (memory->receives_ + memory->sends_) * kBounceBytes + sizeof(std::uint64_t);
  memory->bytes_ = (buffers + kPage - 1) / kPage * kPage + kPage;
  void* const mapped =
      ::mmap(nullptr, memory->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return Status::system_error(StatusCode::kResourceExhausted, {"connect", "", "verbs"},
                                "no memory for a lane's buffers", errno, "free some memory");
  }
  memory->base_ = static_cast<std::byte*>(mapped);
  memory->words_ = memory->base_ + memory->bytes_ - kPage;
  (void)::madvise(mapped, memory->bytes_, MADV_DONTFORK);
  // The answers to iWARP's reads come as writes of the peer.
  const unsigned access = IBV_ACCESS_LOCAL_WRITE | (iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
  memory->buffers_region_ = library.reg_mr(domain, memory->base_, memory->bytes_ - kPage, access);
  if (memory->buffers_region_ != nullptr) {
    memory->words_region_ =
        library.reg_mr(domain, memory->words_, kPage,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    if (memory->words_region_ == nullptr && (errno == EOPNOTSUPP || errno == EINVAL)) {  // siw
      memory->words_region_ = library.reg_mr(domain, memory->words_, kPage,
                                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    }
  }
  if (memory->buffers_region_ != nullptr && memory->words_region_ != nullptr) return memory;
  return Status::system_error(
      StatusCode::kResourceExhausted, {"connect", "", "verbs"},
      device + " does not register a lane's " + std::to_string(memory->bytes_) + " bytes", errno,
      "raise the limit of locked memory (ulimit -l unlimited), see docs/how-to/rdma.md");
}

LaneMemory::~LaneMemory() {
  if (words_region_ != nullptr) (void)library_.dereg_mr(words_region_);
  if (buffers_region_ != nullptr) (void)library_.dereg_mr(buffers_region_);
  if (base_ != nullptr) (void)::munmap(base_, bytes_);
}

}  // namespace farwrite::fabric::verbs
