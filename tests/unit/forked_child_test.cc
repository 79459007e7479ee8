// What a forked child sees of its parent's arena, and what the parent holds back for it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "memory/arena.h"
#include "memory/forked_readers.h"

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kForkedMiB = std::uint64_t{1} << 20;
constexpr int kPatience = 240'000;  // ms; bounds a hang

// A forked process that waits for a word of the test, then judges what it sees and ends.
class Child {
 public:
  // `judge` runs in the child when told; what it makes of the word is its exit status.
  explicit Child(const std::function<bool()>& judge) {
    EXPECT_EQ(::pipe2(word_, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(word_[1]);
    ::_exit(wait_for_word(word_[0]) && judge() ? 0 : 1);
  }
  ~Child() {
    if (pid_ > 0) (void)finish();
    ::close(word_[0]);
    ::close(word_[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Whether the child's judgement was good.
  bool finish() {
    EXPECT_EQ(::write(word_[1], "x", 1), 1);
    int status = -1;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  static bool wait_for_word(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, kPatience) == 1 && (entry.revents & POLLIN) != 0;
  }
  int word() const { return word_[0]; }

 private:
  int word_[2] = {-1, -1};
  pid_t pid_ = -1;
};

class ForkedChild : public ::testing::Test {
 protected:
  ForkedChild() { make_arena(8); }
  void make_arena(std::uint64_t limit_mib, std::shared_ptr<Quota> quota = nullptr) {
    ArenaOptions options;
    options.name = "test arena";
    options.limit_bytes = limit_mib * kForkedMiB;
    options.segment_bytes = 2 * kForkedMiB;
    options.quota = std::move(quota);
    arena_ = *Arena::create(std::move(options));
  }
  Block make(std::uint64_t bytes, char content) {
    Result<Block> block = arena_->allocate(bytes);
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    if (!block.ok()) return {};
    std::memset(block->data, content, block->bytes);
    return *block;
  }
  static bool holds(const Block& block, char content) {
    for (std::uint64_t i = 0; i < block.bytes; ++i) {
      if (block.data[i] != static_cast<std::byte>(content)) return false;
    }
    return true;
  }
  // Frees `block`, then writes over everything that the arena still gives away.
  void free_and_overwrite(const Block& block) {
    arena_->free(block.data);
    std::vector<Block> others;
    for (std::uint64_t bytes = 2 * kForkedMiB; bytes >= 64; bytes /= 2) {
      for (auto more = arena_->allocate(bytes); more.ok(); more = arena_->allocate(bytes)) {
        std::memset(more->data, '!', more->bytes);
        others.push_back(*more);
      }
    }
    for (const Block& other : others) arena_->free(other.data);
  }
  std::uint64_t held_back() const { return arena_->stats().held_back_bytes; }
  std::uint64_t held_back_now() const {
    arena_->reclaim();
    return held_back();
  }
  bool comes_back() const {
    for (int turn = 0; turn < kPatience / 5; ++turn) {
      if (held_back_now() == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::shared_ptr<Arena> arena_;
};

TEST_F(ForkedChild, ReadsWhatItsParentHadAndWritesOnlyForItself) {
  const Block block = make(100000, 'a');
  Child child([&] {
    if (!holds(block, 'a')) return false;
    std::memset(block.data, 'b', block.bytes);
    return holds(block, 'b');
  });
  EXPECT_TRUE(child.finish());
  EXPECT_TRUE(holds(block, 'a'));
  arena_->free(block.data);
}

TEST_F(ForkedChild, StillReadsABlockThatItsParentFreedAndCouldUseAgain) {
  for (const std::uint64_t bytes : {std::uint64_t{64}, std::uint64_t{100000}, 2 * kForkedMiB}) {
    const Block block = make(bytes, 'a');
    Child child([&] { return holds(block, 'a'); });
    free_and_overwrite(block);
    EXPECT_EQ(held_back(), block.bytes);
    EXPECT_TRUE(child.finish()) << bytes;
    EXPECT_TRUE(comes_back());
  }
  EXPECT_EQ(arena_->stats().used_bytes, 0U);
  arena_->trim();
  EXPECT_EQ(arena_->stats().reserved_bytes, 0U);
}

TEST_F(ForkedChild, StillReadsWhenTheWholeArenaIsGone) {
  const Block block = make(100000, 'a');
  Child child([&] { return holds(block, 'a'); });
  arena_->free(block.data);
  arena_->trim();
  EXPECT_EQ(arena_->stats().reserved_bytes, 2 * kForkedMiB) << "a segment that a child reads stays";
  arena_.reset();
  EXPECT_TRUE(child.finish());
}

TEST_F(ForkedChild, IsWatchedOnlyWhileThereIsMemoryThatItReads) {
  const auto watched = [] {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the iterator's own descriptor
      const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (target.find("farwrite-fork") != std::string::npos) ++files;
    }
    return files;
  };
  const Block block = make(100000, 'a');
  Child child([&] { return holds(block, 'a') && watched() == 0; });
  EXPECT_EQ(watched(), 1);
  arena_->free(block.data);
  arena_.reset();
  EXPECT_EQ(watched(), 0);
  EXPECT_TRUE(child.finish());
}

TEST_F(ForkedChild, DoesNotKeepWhatItsParentMadeLater) {
  const Block before = make(100000, 'a');
  Child child([&] { return holds(before, 'a'); });
  for (int turn = 0; turn < 1000; ++turn) arena_->free(make(100000, 'b').data);
  EXPECT_EQ(held_back(), 0U);
  arena_->free(before.data);
  EXPECT_EQ(held_back(), before.bytes);
  EXPECT_TRUE(child.finish());
}

// What lives across a fork after its predecessors' end, in a block that was stamped meanwhile.
TEST_F(ForkedChild, OfALaterForkKeepsWhatAnEarlierOneDidNot) {
  {
    Child first([] { return true; });
  }
  const Block block = make(100000, 'a');
  ForkedReaders::refresh();
  Child second([&] { return holds(block, 'a'); });
  free_and_overwrite(block);
  EXPECT_EQ(held_back(), block.bytes);
  EXPECT_TRUE(second.finish());
  EXPECT_TRUE(comes_back());
}

TEST_F(ForkedChild, MayEndInAnyOrder) {
  const Block first_block = make(100000, 'a');
  Child first([&] { return holds(first_block, 'a'); });
  const Block second_block = make(200000, 'b');
  Child second([&] { return holds(first_block, 'a') && holds(second_block, 'b'); });
  free_and_overwrite(first_block);
  free_and_overwrite(second_block);
  EXPECT_TRUE(second.finish());
  EXPECT_EQ(held_back_now(), first_block.bytes) << "the first child never saw the second block";
  EXPECT_TRUE(first.finish());
  EXPECT_EQ(held_back_now(), 0U);
}

TEST_F(ForkedChild, IsOutlivedByItsOwnChildren) {
  const Block block = make(100000, 'a');
  int word[2] = {-1, -1};
  int verdict[2] = {-1, -1};
  ASSERT_EQ(::pipe2(word, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(verdict, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::fork() != 0) ::_exit(0);
    const bool good = Child::wait_for_word(word[0]) && holds(block, 'a');
    ::_exit(::write(verdict[1], good ? "y" : "n", 1) == 1 ? 0 : 1);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  free_and_overwrite(block);
  EXPECT_EQ(held_back_now(), block.bytes);
  ASSERT_EQ(::write(word[1], "x", 1), 1);
  ASSERT_TRUE(Child::wait_for_word(verdict[0]));
  char answer = 0;
  ASSERT_EQ(::read(verdict[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_TRUE(comes_back());
  for (const int fd : {word[0], word[1], verdict[0], verdict[1]}) ::close(fd);
}

TEST_F(ForkedChild, IsNotTakenForDeadWhenItClosesItsDescriptors) {
  const Block block = make(100000, 'a');
  int ready[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 3; fd < 1024; ++fd) {
      if (fd != ready[1]) ::close(fd);
    }
    ::close(ready[1]);
    ::pause();
  }
  ::close(ready[1]);
  pollfd entry{ready[0], POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, kPatience), 1);  // it has closed them
  arena_->free(block.data);
  EXPECT_EQ(held_back_now(), block.bytes);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(held_back_now(), 0U);
  ::close(ready[0]);
}

TEST_F(ForkedChild, HoldsNothingOnceItRunsAnotherProgram) {
  const Block block = make(100000, 'a');
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("sleep", "sleep", "100", nullptr);
    ::_exit(127);
  }
  arena_->free(block.data);
  EXPECT_TRUE(comes_back());
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the program ran when the memory came back";
}

TEST_F(ForkedChild, SeesInPlaceUpdatesOnlyInPagesThatItHasNotWritten) {
  const Block block = make(2 * 4096 + 4096, 'a');
  auto* const page = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(block.data) + 4095) / 4096 * 4096);
  int written[2] = {-1, -1};
  ASSERT_EQ(::pipe2(written, O_CLOEXEC), 0);
  Child child([&] { return page[1] == std::byte{'a'} && page[4096 + 1] == std::byte{'c'}; });
  // The child of `child` above waits; one more that writes first.
  int word[2] = {-1, -1};
  ASSERT_EQ(::pipe2(word, O_CLOEXEC), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    page[0] = std::byte{'b'};
    if (::write(written[1], "x", 1) != 1 || !Child::wait_for_word(word[0])) ::_exit(2);
    const bool kept = page[0] == std::byte{'b'} && page[1] == std::byte{'a'};
    ::_exit(kept && page[4096 + 1] == std::byte{'c'} ? 0 : 1);
  }
  ASSERT_TRUE(Child::wait_for_word(written[0]));
  page[4096 + 1] = std::byte{'c'};
  EXPECT_TRUE(child.finish());
  page[1] = std::byte{'c'};
  ASSERT_EQ(::write(word[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_EQ(status, 0);
  for (const int fd : {written[0], written[1], word[0], word[1]}) ::close(fd);
  arena_->free(block.data);
}

TEST_F(ForkedChild, IsNamedByTheErrorOfAnArenaThatIsFullBecauseOfIt) {
  const Block block = make(6 * kForkedMiB, 'a');
  Child child([&] { return holds(block, 'a'); });
  arena_->free(block.data);
  const Result<Block> refused = arena_->allocate(4 * kForkedMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("held back while a forked child may read them"),
            std::string::npos)
      << refused.status().message();
  EXPECT_TRUE(child.finish());
  Result<Block> again = arena_->allocate(4 * kForkedMiB);
  ASSERT_TRUE(again.ok()) << "without a reclaim(): " << again.status().to_string();
  arena_->free(again->data);
}

TEST_F(ForkedChild, KeepsTheQuotaChargedForWhatItReads) {
  const auto quota = std::make_shared<Quota>("test quota", 4 * kForkedMiB);
  make_arena(8, quota);
  const Block block = make(3 * kForkedMiB, 'a');
  {
    Child child([&] { return holds(block, 'a'); });
    arena_->free(block.data);
    EXPECT_GE(quota->in_use(), 3 * kForkedMiB);
    EXPECT_FALSE(arena_->allocate(2 * kForkedMiB).ok());
    EXPECT_TRUE(child.finish());
  }
  const Block next = make(2 * kForkedMiB, 'b');
  arena_->free(next.data);
  EXPECT_EQ(quota->in_use(), 0U);
  {
    const Block last = make(kForkedMiB, 'c');
    Child child([&] { return holds(last, 'c'); });
    arena_->free(last.data);
    arena_.reset();
    EXPECT_EQ(quota->in_use(), 0U) << "an arena that goes leaves no charge behind";
    EXPECT_TRUE(child.finish());
  }
}

TEST_F(ForkedChild, IsOneOfManyWithoutADescriptorForEach) {
  const Block block = make(100000, 'a');
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 150; ++i) {
    children.push_back(std::make_unique<Child>([&] { return holds(block, 'a'); }));
  }
  free_and_overwrite(block);
  for (const auto& child : children) {
    EXPECT_EQ(held_back_now(), block.bytes);
    EXPECT_TRUE(child->finish());
  }
  EXPECT_EQ(held_back_now(), 0U);
}

TEST_F(ForkedChild, CountsAsLivingForEverWhenNoDescriptorIsLeftToWatchIt) {
  // In a process of its own: that one holds back from then on.
  const pid_t process = ::fork();
  if (process == 0) {
    make_arena(8);
    const Block block = make(100000, 'a');
    rlimit none{3, 3};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) ::_exit(2);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(holds(block, 'a') ? 0 : 1);
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0) ::_exit(3);
    arena_->free(block.data);
    ::_exit(held_back_now() == block.bytes ? 0 : 4);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ForkedChild, OpensAnArenaOfItsOwnThatItsChildrenRead) {
  const Block inherited = make(100000, 'a');
  Child child([&] {
    make_arena(8);
    const Block own = make(100000, 'b');
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(holds(inherited, 'a') && holds(own, 'b') ? 0 : 1);
    int status = -1;
    return ::waitpid(grandchild, &status, 0) == grandchild && status == 0;
  });
  EXPECT_TRUE(child.finish());
  arena_->free(inherited.data);
}

// Blocks of many threads come and go while others fork; what a forking thread holds, its child
// reads.
TEST_F(ForkedChild, ReadsTheRightBytesHoweverBusyItsParentIs) {
  make_arena(64);
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int thread = 0; thread < 3; ++thread) {
    busy.emplace_back([&] {
      while (!over.load()) {
        std::vector<Block> blocks;
        for (int i = 0; i < 20; ++i) {
          Result<Block> block = arena_->allocate(4096 << (i % 5));
          if (!block.ok()) break;
          std::memset(block->data, '!', block->bytes);
          blocks.push_back(*block);
        }
        for (const Block& block : blocks) arena_->free(block.data);
      }
    });
  }
  for (int turn = 0; turn < 40; ++turn) {
    const char content = static_cast<char>('a' + turn % 26);
    const Block block = make(16384, content);
    Child child([&] { return holds(block, content); });
    arena_->free(block.data);
    for (int i = 0; i < 200; ++i) arena_->free(make(16384, '?').data);
    EXPECT_TRUE(child.finish());
  }
  over = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_TRUE(comes_back());
}

}  // namespace
}  // namespace farwrite::memory
