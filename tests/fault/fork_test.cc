// The owner of a device forks: the child reads what its parent had and may use nothing else, and
// neither the parent nor its peer notices anything.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

// Everything a user can hold of a device.
struct Held {
  Device device;
  Channel channel;
  MemoryRegion exported;
  MemoryRegion landing;
  RemoteRegion remote_landing;
  RemoteRegion remote_exported;
};

// How the forked child ended: its exit status, or 1000 + the signal.
int status_of(pid_t child) {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; });
  if (!ended) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

constexpr std::uint64_t kBytes = 4096;

bool holds(const void* memory, char content) {
  const auto* const bytes = static_cast<const char*>(memory);
  for (std::uint64_t i = 0; i < kBytes; ++i) {
    if (bytes[i] != content) return false;
  }
  return true;
}

// In the child: 0 if it reads every array as its parent did, and writes into those it may write.
int read_and_write_arrays(Held& held, const void* peers) {
  if (!holds(held.exported.data(), 'e')) return 1;
  if (!holds(held.landing.data(), 'l')) return 2;
  if (!holds(peers, 'p')) return 3;
  std::memset(held.exported.data(), 'x', kBytes);
  std::memset(held.landing.data(), 'x', kBytes);
  return holds(held.exported.data(), 'x') && holds(held.landing.data(), 'x') ? 0 : 4;
}

// A role of its own process, so that exit(0) runs in a program without a test framework's state:
// says how the forked children fared, then goes on as the parent.
int fork_owner(const Arguments& arguments) {
  auto holder = std::make_unique<Held>();
  {
    Connected peer = connect_to(arguments.at(0));
    holder->device = peer.device;
    holder->channel = peer.channel;
  }
  holder->exported = holder->device.allocate(4096).value();
  holder->landing = holder->channel.allocate(4096).value();
  holder->remote_landing = holder->channel.lookup("landing").value();
  holder->remote_exported = holder->channel.lookup("export").value();
  std::memset(holder->exported.data(), 'e', kBytes);
  std::memset(holder->landing.data(), 'l', kBytes);
  {
    const Alias peers = holder->channel.alias(holder->remote_exported, 0, kBytes).value();
    const pid_t reader = ::fork();
    if (reader == 0) ::_exit(read_and_write_arrays(*holder, peers.data()));
    say("arrays " + std::to_string(status_of(reader)));
    const bool untouched =
        holds(holder->exported.data(), 'e') && holds(holder->landing.data(), 'l');
    say("untouched " + std::to_string(untouched ? 1 : 0));
  }
  // Handles that go out of scope, then the ordinary end of a program.
  const pid_t child = ::fork();
  if (child == 0) {
    holder.reset();
    std::exit(0);
  }
  say("destructors " + std::to_string(status_of(child)));
  // The parent goes on: every path once more.
  char bytes[16] = {};
  FARWRITE_REQUIRE_OK(holder->channel.write({bytes, 16}, holder->remote_landing).wait(kPatience));
  FARWRITE_REQUIRE_OK(holder->channel.read({bytes, 16}, holder->remote_exported).wait(kPatience));
  FARWRITE_REQUIRE_OK(holder->channel.notify(77).wait(kPatience));
  auto answer = holder->channel.wait_notification(kPatience);
  FARWRITE_REQUIRE_OK(answer.status());
  FARWRITE_REQUIRE_OK(holder->landing.close(kPatience));
  FARWRITE_REQUIRE_OK(holder->channel.close(kPatience));
  holder->remote_landing = RemoteRegion();
  holder->remote_exported = RemoteRegion();
  FARWRITE_REQUIRE_OK(holder->device.close(kPatience));
  say("went on");
  hear_the_end();
  return 0;
}
const RoleRegistration kForkOwner("fork owner", fork_owner);

using Fork = FaultTest;

TEST_F(Fork, LeavesTheChildItsOwnBytesAndTheParentUndisturbed) {
  Device device = open_device();
  auto exported = device.allocate(kBytes).value();
  std::memset(exported.data(), 'p', kBytes);
  ASSERT_TRUE(device.publish("export", exported).ok());
  ChildProcess owner("fork owner", {device.endpoint().to_string()});
  Channel channel = device.accept(kPatience).value();
  auto landing = channel.allocate(4096).value();
  ASSERT_TRUE(channel.publish("landing", landing).ok());
  EXPECT_EQ(owner.wait_for("arrays"), "0") << "1000 and more: a signal";
  EXPECT_EQ(owner.wait_for("untouched"), "1");
  EXPECT_TRUE(holds(exported.data(), 'p'));
  EXPECT_EQ(owner.wait_for("destructors"), "0");
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kAlive; }));
  auto notification = channel.wait_notification(kPatience);
  ASSERT_TRUE(notification.ok()) << notification.status().to_string();
  EXPECT_EQ(notification->tag, 77u);
  ASSERT_TRUE(channel.notify(78).wait(kPatience).ok());
  owner.wait_for("went on");
  EXPECT_EQ(owner.finish(), 0);
  EXPECT_TRUE(eventually(
      [&] { return channel.stats().leases_granted == channel.stats().leases_released; }));
  EXPECT_TRUE(device.close().ok());
}

}  // namespace

}  // namespace farwrite::fault
