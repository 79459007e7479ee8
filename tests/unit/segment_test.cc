#include "memory/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kBytes = 256 << 10;

std::shared_ptr<Segment> make_segment(SegmentUse use) {
  SegmentOptions options;
  options.bytes = kBytes;
  options.use = use;
  options.name = "segment-test";
  Result<std::shared_ptr<Segment>> segment = Segment::create(options);
  EXPECT_TRUE(segment.ok()) << segment.status().to_string();
  return std::move(segment).value();
}

core::UniqueFd reopen_writable(const Segment& segment) {
  const std::string path = "/proc/self/fd/" + std::to_string(segment.fd());
  return core::UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

core::UniqueFd duplicate(const Segment& segment) {
  return core::UniqueFd(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0));
}

// Runs `judge` in a forked child: 0 if it returned true, else the child's wait status.
template <typename Judge>
int status_of_child(Judge judge) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(judge() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// Runs `action` in a forked child and returns the signal that ended it, 0 for a normal end.
template <typename Action>
int signal_ending_child(Action action) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's own handler would turn the signal into an exit
    action();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(Segment, GivesItsOwnerWritableZeroedMemoryAtA2MiBBoundary) {
  const auto segment = make_segment(SegmentUse::kExport);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment->base()) % kHugePageBytes, 0U);
  EXPECT_EQ(segment->bytes(), kBytes);
  for (std::uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(segment->base()[i], std::byte{0});
  std::memset(segment->base(), 7, kBytes);
  EXPECT_EQ(segment->base()[kBytes - 1], std::byte{7});
}

TEST(Segment, HasAnIdThatIsNeverZeroAndNeverReused) {
  const std::uint32_t first = make_segment(SegmentUse::kExport)->id();
  const std::uint32_t second = make_segment(SegmentUse::kExport)->id();
  EXPECT_NE(first, 0U);
  EXPECT_GT(second, first);
}

TEST(Segment, ForExportCannotBeWrittenThroughAReopenedDescriptor) {
  const auto segment = make_segment(SegmentUse::kExport);
  const core::UniqueFd fd = reopen_writable(*segment);
  ASSERT_TRUE(fd.valid());
  EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::pwrite(fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(Segment, ForExportStaysReadOnlyInAReadOnlyMapping) {
  const auto segment = make_segment(SegmentUse::kExport);
  void* const mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, segment->fd(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(::mprotect(mapped, kBytes, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  ::munmap(mapped, kBytes);
}

TEST(Segment, OfEitherUseCanNeitherShrinkNorGrowNorBeUnsealed) {
  for (const SegmentUse use : {SegmentUse::kExport, SegmentUse::kLanding}) {
    const auto segment = make_segment(use);
    EXPECT_EQ(::ftruncate(segment->fd(), 4096), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(::ftruncate(segment->fd(), 2 * kBytes), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(::fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
    EXPECT_EQ(errno, EPERM);
  }
}

TEST(Segment, PrefaultBacksEveryPage) {
  for (const bool prefault : {true, false}) {
    SegmentOptions options;
    options.bytes = kBytes;
    options.huge_pages = HugePages::kOff;
    options.prefault = prefault;
    const auto segment = std::move(Segment::create(options)).value();
    struct stat info = {};
    ASSERT_EQ(::fstat(segment->fd(), &info), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(info.st_blocks) * 512, prefault ? kBytes : 0U);
  }
}

TEST(Segment, IsReadAndPrivatelyWrittenByAForkedChild) {
  for (const SegmentUse use : {SegmentUse::kExport, SegmentUse::kLanding}) {
    const bool writable = use == SegmentUse::kLanding;
    const auto segment = make_segment(use);
    const auto mapped =
        std::move(MappedSegment::map(duplicate(*segment), kBytes, writable)).value();
    volatile std::byte* const own = segment->base();
    auto* const peers = const_cast<volatile std::byte*>(mapped->base());
    own[0] = std::byte{7};
    own[4096] = std::byte{7};
    EXPECT_EQ(status_of_child([&] { return own[0] == std::byte{7} && peers[0] == std::byte{7}; }),
              0);
    EXPECT_EQ(status_of_child([&] {
                own[0] = std::byte{1};
                peers[4096] = std::byte{2};
                return own[0] == std::byte{1} && peers[4096] == std::byte{2};
              }),
              0);
    EXPECT_TRUE(own[0] == std::byte{7});
    EXPECT_TRUE(own[4096] == std::byte{7});
    EXPECT_TRUE(peers[0] == std::byte{7});
  }
}

TEST(Segment, OfExplicitHugePagesIsReadByAForkedChild) {
  SegmentOptions options;
  options.bytes = kHugePageBytes;
  options.huge_pages = HugePages::kExplicit;
  auto segment = Segment::create(options);
  if (!segment.ok()) GTEST_SKIP() << segment.status().message();
  volatile std::byte* const own = (*segment)->base();
  own[0] = std::byte{7};
  EXPECT_EQ(status_of_child([&] { return own[0] == std::byte{7}; }), 0);
}

// A raw clone(2) runs no handlers: its child has nothing rather than the shared memory itself.
TEST(Segment, IsNotMappedInAChildThatRanNoForkHandlers) {
  const auto segment = make_segment(SegmentUse::kLanding);
  volatile std::byte* const own = segment->base();
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    own[0] = std::byte{1};
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_TRUE(own[0] == std::byte{0});
}

TEST(Segment, DestroyedInAForkedChildLeavesTheChildsOwnMappingsAlone) {
  auto segment = make_segment(SegmentUse::kExport);
  std::byte* const base = segment->base();
  const int signal = signal_ending_child([&] {
    // Where the child's view of the parent's segment was may be something else by now.
    ::munmap(base, kBytes);
    void* const reused = ::mmap(base, kBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (reused != base) ::_exit(0);
    segment.reset();
    *const_cast<volatile std::byte*>(base) = std::byte{1};
  });
  EXPECT_EQ(signal, 0);
}

TEST(Segment, NeverFallsBackFromExplicitHugePagesUnlessAskedTo) {
  SegmentOptions options;
  options.bytes = kBytes;
  options.huge_pages = HugePages::kExplicit;
  Result<std::shared_ptr<Segment>> strict = Segment::create(options);
  if (strict.ok()) {
    EXPECT_TRUE((*strict)->explicit_huge_pages());
  } else {
    EXPECT_NE(strict.status().message().find("vm.nr_hugepages"), std::string::npos)
        << strict.status().message();
  }
  options.huge_pages = HugePages::kTryExplicit;
  Result<std::shared_ptr<Segment>> lenient = Segment::create(options);
  ASSERT_TRUE(lenient.ok()) << lenient.status().message();
  EXPECT_EQ((*lenient)->explicit_huge_pages(), strict.ok());
}

TEST(Segment, ExplainsARefusedNumaNode) {
  SegmentOptions options;
  options.bytes = kBytes;
  options.numa.node = 1000;
  const Result<std::shared_ptr<Segment>> segment = Segment::create(options);
  ASSERT_FALSE(segment.ok());
  EXPECT_NE(segment.status().message().find("NUMA"), std::string::npos);
  EXPECT_NE(segment.status().message().find("1000"), std::string::npos);
}

TEST(Segment, DoesWithoutAPreferredNumaNodeThatIsRefused) {
  SegmentOptions options;
  options.bytes = kBytes;
  options.numa = {.node = 1000, .required = false};
  EXPECT_FALSE(check_placement(options.numa).ok());
  const Result<std::shared_ptr<Segment>> segment = Segment::create(options);
  EXPECT_TRUE(segment.ok()) << segment.status().message();
}

TEST(Segment, OfZeroBytesIsRefused) {
  EXPECT_EQ(Segment::create(SegmentOptions{}).status().code(), StatusCode::kInvalidArgument);
}

TEST(MappedSegment, SeesWhatTheOwnerWrites) {
  const auto segment = make_segment(SegmentUse::kExport);
  const auto mapped = std::move(MappedSegment::map(duplicate(*segment), kBytes, false)).value();
  segment->base()[4097] = std::byte{42};
  EXPECT_EQ(mapped->base()[4097], std::byte{42});
  EXPECT_EQ(mapped->bytes(), kBytes);
}

TEST(MappedSegment, WritesIntoALandingSegment) {
  const auto segment = make_segment(SegmentUse::kLanding);
  const auto mapped = std::move(MappedSegment::map(duplicate(*segment), kBytes, true)).value();
  mapped->mutable_base()[kBytes - 1] = std::byte{9};
  EXPECT_EQ(segment->base()[kBytes - 1], std::byte{9});
}

TEST(MappedSegment, OfAnExportSegmentIsNeverWritable) {
  const auto segment = make_segment(SegmentUse::kExport);
  const auto mapped = MappedSegment::map(duplicate(*segment), kBytes, true);
  EXPECT_EQ(mapped.status().code(), StatusCode::kPermissionDenied);
}

TEST(MappedSegment, RefusesASizeThatWasNotAnnounced) {
  const auto segment = make_segment(SegmentUse::kExport);
  for (const std::uint64_t bytes : {std::uint64_t{0}, kBytes - 4096, kBytes + 4096}) {
    EXPECT_EQ(MappedSegment::map(duplicate(*segment), bytes, false).status().code(),
              StatusCode::kProtocolError);
  }
}

TEST(MappedSegment, RefusesMemoryThatItsOwnerCouldShrink) {
  core::UniqueFd fd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  const auto mapped = MappedSegment::map(std::move(fd), kBytes, false);
  EXPECT_EQ(mapped.status().code(), StatusCode::kProtocolError);
  EXPECT_NE(mapped.status().message().find("shrinking"), std::string::npos);
}

TEST(MappedSegment, RefusesADescriptorThatIsNoMemoryFile) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const core::UniqueFd other_end(ends[1]);
  EXPECT_EQ(MappedSegment::map(core::UniqueFd(ends[0]), kBytes, false).status().code(),
            StatusCode::kProtocolError);
  EXPECT_EQ(MappedSegment::map(core::UniqueFd(), kBytes, false).status().code(),
            StatusCode::kProtocolError);
}

TEST(MappedSegment, NeverBacksASparseFileOfThePeer) {
  SegmentOptions options;
  options.bytes = kBytes;
  options.huge_pages = HugePages::kOff;
  options.prefault = false;
  const auto segment = std::move(Segment::create(options)).value();
  const auto mapped = std::move(MappedSegment::map(duplicate(*segment), kBytes, false)).value();
  struct stat info = {};
  ASSERT_EQ(::fstat(segment->fd(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
}

TEST(MappedSegmentDeathTest, AbortsWhenWritableMemoryIsAskedOfAReadOnlyMapping) {
  const auto segment = make_segment(SegmentUse::kLanding);
  const auto mapped = std::move(MappedSegment::map(duplicate(*segment), kBytes, false)).value();
  EXPECT_DEATH((void)mapped->mutable_base(), "read-only");
}

}  // namespace
}  // namespace farwrite::memory
