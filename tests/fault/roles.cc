// The peers of the fault tests. Each connects to the endpoint in its first argument, unless it says
// otherwise.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "fault/fixture.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

// Does nothing.
int idle(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  say("connected");
  hear_the_end();
  return 0;
}
const RoleRegistration kIdle("idle", idle);

// Does nothing, and has a child of its own that keeps all its descriptors open.
int idle_parent(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  if (::fork() == 0) {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    ::_exit(0);
  }
  say("connected");
  ::pause();
  return 0;
}
const RoleRegistration kIdleParent("idle parent", idle_parent);

// Sends every notification back. With a second argument it says so each time.
int echo(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  const bool aloud = arguments.size() > 1;
  say("connected");
  while (true) {
    auto notification = peer.channel.wait_notification(kPatience);
    if (!notification.ok()) return 0;
    if (!peer.channel.notify(notification->tag).wait(kPatience).ok()) return 0;
    if (aloud) say("sent " + std::to_string(notification->tag));
  }
}
const RoleRegistration kEcho("echo", echo);

// Says, each time it is asked, how often it took its peer for silent. The second argument names the
// fabric, the third the detection time in milliseconds.
int judge(const Arguments& arguments) {
  DeviceOptions options = quick_options();
  options.fabrics = {arguments.at(1) == "tcp" ? FabricKind::kTcp : FabricKind::kShm};
  options.detection_time = std::chrono::milliseconds(std::stoi(arguments.at(2)));
  auto device = Device::open(options);
  FARWRITE_REQUIRE_OK(device.status());
  auto channel = device->connect(Endpoint::parse(arguments.at(0)).value(), kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  say("connected");
  while (hear().has_value()) say("silences " + std::to_string(channel->stats().silences));
  return 0;
}
const RoleRegistration kJudge("judge", judge);

// Holds the region "export" by two handles, and by an alias where the fabric maps.
int lessee(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  auto first = peer.channel.lookup("export");
  FARWRITE_REQUIRE_OK(first.status());
  auto second = peer.channel.lookup("export");
  FARWRITE_REQUIRE_OK(second.status());
  Alias alias;
  if (peer.channel.maps_peer_memory()) {
    auto mapped = peer.channel.alias(*first, 0, first->size());
    FARWRITE_REQUIRE_OK(mapped.status());
    alias = *std::move(mapped);
  }
  say("holding");
  hear_the_end();
  return 0;
}
const RoleRegistration kLessee("lessee", lessee);

// Takes no notification before "take N", then N of them, which must be 0 to N-1 in order.
int deaf(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  say("connected");
  const std::optional<std::string> order = hear();
  if (!order.has_value()) return 0;
  const auto count = static_cast<std::uint32_t>(std::stoul(order->substr(5)));
  for (std::uint32_t tag = 0; tag < count; ++tag) {
    auto notification = peer.channel.wait_notification(kPatience);
    FARWRITE_REQUIRE_OK(notification.status());
    if (notification->tag != tag) {
      give_up(__FILE__, __LINE__,
              "took " + std::to_string(notification->tag) + " for " + std::to_string(tag));
    }
  }
  auto more = peer.channel.wait_notification(std::chrono::milliseconds(50));
  FARWRITE_REQUIRE(more.status().code() == StatusCode::kDeadlineExceeded);
  say("took all");
  hear_the_end();
  return 0;
}
const RoleRegistration kDeaf("deaf", deaf);

// A page in the middle of the bytes being written. Reading it stops the writer inside its copy
// until the test says a line.
std::byte* tripwire = nullptr;
constexpr std::size_t kPage = 4096;

void on_tripwire(int, siginfo_t*, void*) {
  constexpr char kInside[] = "inside\n";
  if (::write(STDOUT_FILENO, kInside, sizeof(kInside) - 1) < 0) ::_exit(1);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
  }
  ::mprotect(tripwire, kPage, PROT_READ | PROT_WRITE);
}

// Gets stuck in the middle of a write into the region "landing".
int stuck_writer(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  auto target = peer.channel.lookup("landing");
  FARWRITE_REQUIRE_OK(target.status());
  void* const memory =
      ::mmap(nullptr, target->size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FARWRITE_REQUIRE(memory != MAP_FAILED);
  std::memset(memory, 0x5a, target->size());
  tripwire = static_cast<std::byte*>(memory) + target->size() / 2 / kPage * kPage;
  struct sigaction action{};
  action.sa_sigaction = on_tripwire;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
  FARWRITE_REQUIRE(::mprotect(tripwire, kPage, PROT_NONE) == 0);
  const Status written = peer.channel.write({memory, target->size()}, *target).wait(kPatience);
  say("wrote " + written.to_string());
  const Status again = peer.channel.write({memory, target->size()}, *target).wait(kPatience);
  say("again " + again.to_string());
  hear_the_end();
  return 0;
}
const RoleRegistration kStuckWriter("stuck writer", stuck_writer);

// Listens at the first argument and shows 64 KiB of its second argument's byte as "export". Says
// what its descriptor is.
int publisher(const Arguments& arguments) {
  DeviceOptions options = quick_options();
  options.listen = Endpoint::parse(arguments.at(0)).value();
  auto device = Device::open(options);
  FARWRITE_REQUIRE_OK(device.status());
  auto region = device->allocate(64 * 1024);
  FARWRITE_REQUIRE_OK(region.status());
  std::memset(region->data(), arguments.at(1).front(), region->size());
  FARWRITE_REQUIRE_OK(device->publish("export", *region));
  say("listening " + device->endpoint().to_string());
  auto channel = device->accept(kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  hear_the_end();
  return 0;
}
const RoleRegistration kPublisher("publisher", publisher);

}  // namespace
}  // namespace farwrite::fault
