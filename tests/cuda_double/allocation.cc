#include "allocation.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace farwrite::cuda_double {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr const char* kName = "cuda_double:%d:%zu:%d";
constexpr const char* kLink = "/memfd:cuda_double:%d:%zu:%d (deleted)%n";

std::atomic<unsigned long long> next_id{1};

// The kernel's name of the file behind a descriptor.
std::string name_of(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  char name[128];
  const ssize_t length = ::readlink(link.c_str(), name, sizeof(name));
  return length <= 0 ? "" : std::string(name, static_cast<std::size_t>(length));
}

}  // namespace

std::size_t page_size() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

Allocation::Allocation(Ledger& ledger, const AllocationFacts& facts, bool imported)
    : ledger_(ledger), facts_(facts), imported_(imported), id_(next_id++) {
  ++ledger_.allocations;
  if (!imported_) ledger_.used[static_cast<std::size_t>(facts_.device)] += facts_.size;
}

Allocation::~Allocation() {
  if (bytes_ != nullptr) ::munmap(bytes_, facts_.size);
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!imported_) ledger_.used[static_cast<std::size_t>(facts_.device)] -= facts_.size;
  --ledger_.allocations;
}

bool Allocation::map() {
  void* at = ::mmap(nullptr, facts_.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (at == MAP_FAILED) return false;
  bytes_ = static_cast<std::byte*>(at);
  return true;
}

std::shared_ptr<Allocation> Allocation::create(Ledger& ledger, const AllocationFacts& facts) {
  std::shared_ptr<Allocation> made(new Allocation(ledger, facts, false));
  char name[64];
  std::snprintf(name, sizeof(name), kName, facts.device, facts.size, facts.rdma ? 1 : 0);
  made->descriptor_ = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made->descriptor_ < 0 ||
      ::ftruncate(made->descriptor_, static_cast<off_t>(facts.size)) != 0 ||
      ::fcntl(made->descriptor_, F_ADD_SEALS, kSeals) != 0 || !made->map()) {
    return nullptr;
  }
  return made;
}

std::shared_ptr<Allocation> Allocation::import(Ledger& ledger, int descriptor) {
  AllocationFacts facts;
  int rdma = 0;
  int length = 0;
  const std::string name = name_of(descriptor);
  struct stat state{};
  if (std::sscanf(name.c_str(), kLink, &facts.device, &facts.size, &rdma, &length) != 3 ||
      static_cast<std::size_t>(length) != name.size() || facts.device < 0 ||
      static_cast<std::size_t>(facts.device) >= kMostGpus || ::fstat(descriptor, &state) != 0 ||
      static_cast<std::size_t>(state.st_size) != facts.size ||
      (::fcntl(descriptor, F_GET_SEALS) & kSeals) != kSeals) {
    return nullptr;
  }
  facts.exportable = true;
  facts.rdma = rdma != 0;
  std::shared_ptr<Allocation> made(new Allocation(ledger, facts, true));
  made->descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (made->descriptor_ < 0 || !made->map()) return nullptr;
  return made;
}

int Allocation::duplicate() const { return ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0); }

}  // namespace farwrite::cuda_double
