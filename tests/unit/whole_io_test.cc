#include "box/whole_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "core/unique_fd.h"
#include "unit/damage.h"

namespace farwrite::box {
namespace {

// A signal without SA_RESTART ends a write(2) to a full pipe: with a part written, or with EINTR
// when nothing has read meanwhile.
TEST(WholeIo, WritesEverythingThroughShortWritesAndSignals) {
  struct sigaction interrupt{}, before{};
  interrupt.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &interrupt, &before), 0);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const core::UniqueFd from(ends[0]);
  core::UniqueFd to(ends[1]);
  std::vector<std::byte> sent(1 << 20), received(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 256);

  int result = -1;
  std::thread writer([&] {
    result = write_whole(to.get(), view_of(sent));
    to.reset();
  });
  for (int signals = 0; signals < 20; ++signals) {
    ::pthread_kill(writer.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::size_t at = 0; at < received.size();) {
    ::pthread_kill(writer.native_handle(), SIGUSR1);
    const std::size_t most = std::min<std::size_t>(5000, received.size() - at);
    const ssize_t got = ::read(from.get(), received.data() + at, most);
    if (got <= 0) break;
    at += static_cast<std::size_t>(got);
  }
  writer.join();
  EXPECT_EQ(result, 0);
  EXPECT_EQ(received, sent);
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(WholeIo, ReportsAFullDisk) {
  const core::UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(write_whole(full.get(), {"x", 1}), ENOSPC);
}

TEST(WholeIo, ReadsUpToTheEndOfTheFile) {
  char name[] = "/tmp/farwrite-whole-io-XXXXXX";
  const core::UniqueFd file(::mkstemp(name));
  ASSERT_TRUE(file.valid());
  ::unlink(name);
  ASSERT_EQ(write_whole(file.get(), {"0123456789", 10}), 0);
  std::vector<std::byte> out(8);
  std::size_t read = 0;
  EXPECT_EQ(read_whole(file.get(), 6, {out.data(), out.size()}, read), 0);
  EXPECT_EQ(read, 4u);
  EXPECT_EQ(out[3], std::byte{'9'});
  EXPECT_EQ(read_whole(file.get(), 20, {out.data(), out.size()}, read), 0);
  EXPECT_EQ(read, 0u);
  EXPECT_EQ(read_whole(-1, 0, {out.data(), out.size()}, read), EBADF);
}

}  // namespace
}  // namespace farwrite::box
