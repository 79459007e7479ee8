#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fabric/verbs/real_library.h"
#include "fabric/verbs/registration_cache.h"

namespace farwrite::fabric::verbs {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kPage = 4096;

// An adapter that registers anything, unless told not to.
struct CountingAdapter {
  static inline std::atomic<int> live{0};
  static inline std::atomic<std::uint32_t> last_key{0};
  static inline std::atomic<int> fails_with{0};
  static inline std::atomic<int> last_access{0};

  static Functions functions() {
    live = 0;
    fails_with = 0;
    Functions functions;
    functions.ibv_reg_mr = [](ibv_pd* domain, void* address, std::size_t bytes,
                              int access) -> ibv_mr* {
      if (fails_with != 0) {
        errno = fails_with;
        return nullptr;
      }
      last_access = access;
      ++live;
      auto* const region = new ibv_mr{};
      region->pd = domain;
      region->addr = address;
      region->length = bytes;
      region->lkey = ++last_key;
      region->rkey = region->lkey + 1000;
      return region;
    };
    functions.ibv_dereg_mr = [](ibv_mr* region) {
      --live;
      delete region;
      return 0;
    };
    return functions;
  }
};

class VerbsRegistrationTest : public ::testing::Test {
 protected:
  VerbsRegistrationTest() {
    void* const pages =
        ::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = static_cast<std::byte*>(pages);
  }
  ~VerbsRegistrationTest() override { ::munmap(memory_, kPages * kPage); }

  static std::shared_ptr<memory::Segment> make_segment() {
    memory::SegmentOptions options;
    options.bytes = std::uint64_t{2} << 20;
    options.prefault = false;
    return *memory::Segment::create(options);
  }
  std::unique_ptr<RegistrationCache> make_cache(std::uint64_t max_bytes = 0, bool iwarp = false) {
    return std::make_unique<RegistrationCache>(library_, nullptr, "rxe0", max_bytes, domain_,
                                               iwarp);
  }
  ByteView at(std::uint64_t offset, std::size_t bytes) const { return {memory_ + offset, bytes}; }

  static constexpr std::uint64_t kPages = 64;
  RealLibrary library_{CountingAdapter::functions()};
  std::shared_ptr<const void> domain_ = std::make_shared<int>(0);
  std::unique_ptr<RegistrationCache> cache_ = make_cache();
  std::byte* memory_ = nullptr;
};

TEST_F(VerbsRegistrationTest, ATransferFromASegmentRegistersNothing) {
  const auto segment = make_segment();
  const auto registration =
      *cache_->add_segment(segment, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(registration->data(), segment->base());
  EXPECT_EQ(registration->bytes(), segment->bytes());
  EXPECT_EQ(*cache_->find({segment->base() + 100, 1000}, false), registration);
  EXPECT_EQ(*cache_->find({segment->base() + segment->bytes() - 8, 8}, true), registration);
  const RegistrationStats stats = cache_->stats();
  EXPECT_EQ(stats.segments, 1U);
  EXPECT_EQ(stats.on_demand, 0U);
  EXPECT_EQ(stats.live, 1U);
  EXPECT_EQ(stats.live_bytes, segment->bytes());
  EXPECT_EQ(stats.transfers, 2U);
  EXPECT_EQ(stats.transfers_registered, 0U);
}

TEST_F(VerbsRegistrationTest, BytesPastASegmentsEndAreNotTheSegments) {
  const auto segment = make_segment();
  const auto registration = *cache_->add_segment(segment, IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(cache_->peek({segment->base() + segment->bytes() - 8, 9}, false), nullptr);
  EXPECT_EQ(cache_->peek({segment->base() + segment->bytes(), 1}, false), nullptr);
  EXPECT_EQ(cache_->peek({segment->base() - 1, 2}, false), nullptr);
  EXPECT_EQ(cache_->peek({segment->base(), segment->bytes()}, false), registration);
  EXPECT_EQ(cache_->peek({segment->base(), 1}, true), nullptr) << "not writable by the adapter";
}

TEST_F(VerbsRegistrationTest, ASegmentIsRegisteredOnceForOneKindOfAccess) {
  const auto segment = make_segment();
  const auto readable = *cache_->add_segment(segment, IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(*cache_->add_segment(segment, IBV_ACCESS_REMOTE_READ), readable);
  const std::uint32_t key = readable->remote_key();
  const auto writable =
      *cache_->add_segment(segment, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  EXPECT_NE(writable->remote_key(), key);
  EXPECT_EQ(CountingAdapter::live, 2) << "peers may know the first key";
  EXPECT_EQ(cache_->peek({segment->base(), 1}, true), writable);
}

TEST_F(VerbsRegistrationTest, ARemovedSegmentIsDeregisteredWithItsLastHolder) {
  const auto segment = make_segment();
  auto held = *cache_->add_segment(segment, IBV_ACCESS_LOCAL_WRITE);
  cache_->remove_segment(*segment);
  EXPECT_EQ(cache_->peek({segment->base(), 1}, false), nullptr);
  EXPECT_EQ(CountingAdapter::live, 1) << "a work request may be under way";
  held.reset();
  EXPECT_EQ(CountingAdapter::live, 0);
  cache_->remove_segment(*segment);  // again: nothing
}

TEST_F(VerbsRegistrationTest, ASegmentThatHasGoneIsNeverFoundAgain) {
  auto segment = make_segment();
  const ByteView memory{segment->base(), 100};
  (void)*cache_->add_segment(segment, IBV_ACCESS_LOCAL_WRITE);
  segment.reset();  // other memory may lie there from now on
  EXPECT_EQ(cache_->peek(memory, false), nullptr);
  const auto on_demand = *cache_->find(at(0, 8), false);
  EXPECT_EQ(CountingAdapter::live, 1) << "the first miss has cleared it away";
}

TEST_F(VerbsRegistrationTest, UserMemoryIsRegisteredInWholePagesAndReleasedAtOnce) {
  auto held = *cache_->find(at(kPage + 100, kPage), false);
  EXPECT_EQ(held->data(), memory_ + kPage);
  EXPECT_EQ(held->bytes(), 2 * kPage);
  EXPECT_EQ(CountingAdapter::last_access, 0);
  held.reset();
  EXPECT_EQ(CountingAdapter::live, 0);
  EXPECT_EQ(cache_->peek(at(kPage + 100, kPage), false), nullptr);
  const RegistrationStats stats = cache_->stats();
  EXPECT_EQ(stats.on_demand, 1U);
  EXPECT_EQ(stats.live, 0U);
  EXPECT_EQ(stats.live_bytes, 0U);
  EXPECT_EQ(stats.transfers, 1U);
  EXPECT_EQ(stats.transfers_registered, 1U);
}

TEST_F(VerbsRegistrationTest, TransfersUnderWayShareWhatCoversThem) {
  const auto whole = *cache_->find(at(0, 8 * kPage), false);
  const auto small = *cache_->find(at(7 * kPage, 10), false);  // its own entry would be the next
  EXPECT_EQ(small, whole);
  const auto further = *cache_->find(at(6 * kPage, 3 * kPage), false);  // ends past the first one
  EXPECT_NE(further, whole);
  EXPECT_EQ(*cache_->find(at(7 * kPage, 100), false), further);
  EXPECT_EQ(*cache_->find(at(6 * kPage, 2 * kPage), false), further);
  EXPECT_EQ(*cache_->find(at(5 * kPage, 2 * kPage), false), whole) << "past a shorter one";
  EXPECT_EQ(CountingAdapter::live, 2);
  EXPECT_EQ(cache_->stats().transfers, 6U);
  EXPECT_EQ(cache_->stats().transfers_registered, 2U);
}

TEST_F(VerbsRegistrationTest, ADestinationNeedsARegistrationThatMayBeWritten) {
  const auto source = *cache_->find(at(0, kPage), false);
  const auto destination = *cache_->find(at(0, kPage), true);
  EXPECT_NE(source, destination);
  EXPECT_EQ(CountingAdapter::last_access, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(*cache_->find(at(0, 1), true), destination);
}

TEST_F(VerbsRegistrationTest, IwarpReadsNeedMemoryThatThePeerMayWrite) {
  const auto cache = make_cache(0, true);
  const auto destination = *cache->find(at(0, 8), true);
  EXPECT_EQ(CountingAdapter::last_access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  const auto source = *cache->find(at(4 * kPage, 8), false);
  EXPECT_EQ(CountingAdapter::last_access, 0);
}

TEST_F(VerbsRegistrationTest, WhatAUserHoldsServesTransfersAndIsNotCountedAsOne) {
  const auto held = *cache_->acquire(at(0, 16 * kPage), true);
  EXPECT_EQ(*cache_->find(at(3 * kPage, kPage), false), held);
  EXPECT_EQ(*cache_->find(at(0, 1), true), held);
  EXPECT_EQ(cache_->stats().transfers, 2U);
  EXPECT_EQ(cache_->stats().transfers_registered, 0U);
  EXPECT_EQ(cache_->stats().on_demand, 1U);
}

TEST_F(VerbsRegistrationTest, HoldersOutliveTheCacheAndKeepTheDomain) {
  auto held = *cache_->find(at(0, 8), false);
  const auto segment = make_segment();
  (void)*cache_->add_segment(segment, IBV_ACCESS_LOCAL_WRITE);
  const std::weak_ptr<const void> domain = domain_;
  domain_.reset();
  cache_.reset();
  EXPECT_EQ(CountingAdapter::live, 1) << "the segment's is gone, the held one is not";
  EXPECT_FALSE(domain.expired());
  held.reset();
  EXPECT_EQ(CountingAdapter::live, 0);
  EXPECT_TRUE(domain.expired());
}

TEST_F(VerbsRegistrationTest, NoBytesAreRefused) {
  EXPECT_EQ(cache_->find(at(0, 0), false).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_->peek(at(0, 0), false), nullptr);
}

TEST_F(VerbsRegistrationTest, MoreThanTheAdapterTakesAtOnceIsExplained) {
  const auto cache = make_cache(4 * kPage);
  EXPECT_TRUE(cache->find(at(0, 4 * kPage), false).ok());
  const auto found = cache->find(at(0, 4 * kPage + 1), false);
  EXPECT_EQ(found.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(found.status().message(), HasSubstr("at most 16384 bytes at once (max_mr_size)"));
}

TEST_F(VerbsRegistrationTest, ALimitOfLockedMemoryIsExplained) {
  const auto held = *cache_->find(at(0, kPage), false);
  CountingAdapter::fails_with = ENOMEM;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64 * 1024;
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
  const auto found = cache_->find(at(2 * kPage, kPage), true);
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_EQ(found.status().code(), StatusCode::kResourceExhausted);
  const std::string& text = found.status().message();
  EXPECT_THAT(text,
              HasSubstr("register 4096 bytes with rxe0 over verbs: this process may lock 64 "
                        "KiB of memory (`ulimit -l`), and 4096 bytes on top of the 4096 bytes "
                        "registered already exceed that"));
  EXPECT_THAT(text, HasSubstr("limits.conf"));
  EXPECT_THAT(text, HasSubstr("LimitMEMLOCK"));
  EXPECT_THAT(text, HasSubstr("--ulimit memlock=-1"));
  EXPECT_EQ(cache_->stats().live, 1U);
}

TEST_F(VerbsRegistrationTest, OddMemoryIsExplained) {
  const RegistrationRequest request{at(0, 8), true, 0, 0, "rxe0"};
  EXPECT_EQ(registration_error(request, EFAULT).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(registration_error(request, EFAULT).message(), HasSubstr("mapped file"));
  EXPECT_EQ(registration_error(request, EOPNOTSUPP).code(), StatusCode::kUnsupported);
  EXPECT_EQ(registration_error(request, ENOSPC).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(registration_error(request, ENODEV).code(), StatusCode::kUnavailable);
  EXPECT_EQ(registration_error(request, EDOM).code(), StatusCode::kUnavailable);
}

TEST_F(VerbsRegistrationTest, AForkedChildLeavesItsParentsRegistrationsAlone) {
  auto held = *cache_->find(at(0, 8), false);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    held.reset();
    cache_.reset();
    ::_exit(CountingAdapter::live == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(VerbsRegistrationTest, ManyThreadsLeaveNothingBehind) {
  const auto segment = make_segment();
  (void)*cache_->add_segment(segment, IBV_ACCESS_LOCAL_WRITE);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (unsigned i = 0; i < 2000; ++i) {
        const std::uint64_t page = (i * 7 + thread) % (kPages - 4);
        const ByteView memory = at(page * kPage + i % 100, (i % 3) * kPage + 1);
        const auto found = cache_->find(memory, i % 2 == 0);
        const std::byte* const begin = found.value()->data();
        if (begin > memory.data || begin + found.value()->bytes() < memory.data + memory.size)
          ++wrong;
        if (!cache_->find({segment->base() + i, 10}, true).ok()) ++wrong;
        if (i % 500 == 0) {
          const auto other = make_segment();
          if (!cache_->add_segment(other, IBV_ACCESS_REMOTE_WRITE).ok()) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  cache_->remove_segment(*segment);
  EXPECT_EQ(CountingAdapter::live, 0);
  const RegistrationStats stats = cache_->stats();
  EXPECT_EQ(stats.live, 0U);
  EXPECT_EQ(stats.live_bytes, 0U);
  EXPECT_EQ(stats.transfers, 16'000U);
  EXPECT_EQ(stats.segments, 17U);
}

}  // namespace
}  // namespace farwrite::fabric::verbs
