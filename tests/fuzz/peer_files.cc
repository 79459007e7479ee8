#include "peer_files.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "fabric/shm/mailbox.h"
#include "memory/segment.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

struct Files {
  std::shared_ptr<memory::Segment> exported, landing, mailbox;
  std::array<core::UniqueFd, static_cast<std::size_t>(PeerFile::kCount)> fds;
};

std::shared_ptr<memory::Segment> page(memory::SegmentUse use) {
  memory::SegmentOptions options;
  options.bytes = kPageBytes;
  options.use = use;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
}

core::UniqueFd unsealed() {
  core::UniqueFd fd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(::ftruncate(fd.get(), kPageBytes) == 0, "the test has a memory file");
  return fd;
}

core::UniqueFd pipe_end() {
  int ends[2] = {-1, -1};
  require(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "the test has a pipe");
  ::close(ends[1]);
  return core::UniqueFd(ends[0]);
}

Files make_files() {
  Files files;
  files.exported = page(memory::SegmentUse::kExport);
  files.landing = page(memory::SegmentUse::kLanding);
  files.mailbox = fabric::shm::OwnMailbox::create({}).value().segment;
  const auto at = [&](PeerFile file) -> core::UniqueFd& {
    return files.fds.at(static_cast<std::size_t>(file));
  };
  at(PeerFile::kExport).reset(::dup(files.exported->fd()));
  at(PeerFile::kLanding).reset(::dup(files.landing->fd()));
  at(PeerFile::kMailbox).reset(::dup(files.mailbox->fd()));
  at(PeerFile::kUnsealed) = unsealed();
  at(PeerFile::kDoorbell).reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  at(PeerFile::kPipe) = pipe_end();
  at(PeerFile::kNull).reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return files;
}

}  // namespace

core::UniqueFd open_peer_file(PeerFile file) {
  static const Files files = make_files();
  core::UniqueFd fd(
      ::fcntl(files.fds.at(static_cast<std::size_t>(file)).get(), F_DUPFD_CLOEXEC, 0));
  require(fd.valid(), "the test has a descriptor");
  return fd;
}

std::vector<core::UniqueFd> open_peer_files(const std::vector<std::uint8_t>& kinds) {
  std::vector<core::UniqueFd> fds;
  for (const std::uint8_t kind : kinds) {
    fds.push_back(
        open_peer_file(static_cast<PeerFile>(kind % static_cast<std::uint8_t>(PeerFile::kCount))));
  }
  return fds;
}

}  // namespace farwrite::fuzz
