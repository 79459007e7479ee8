// A crowd of idle connections to everything that a device listens on: it holds few descriptors, and
// honest peers still come in.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <list>
#include <sstream>
#include <vector>

#include "core/tcp_socket.h"
#include "core/tls_library.h"
#include "core/unique_fd.h"
#include "fabric/shm/packet_socket.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/named_fabric.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr rlim_t kDescriptors = 1024;  // the usual limit
constexpr int kCrowds = 3;             // processes, so that no limit of their own matters
constexpr int kEach = 367;
constexpr std::chrono::seconds kHandshake(1);

std::vector<int> open_descriptors() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    found.push_back(std::stoi(entry.path().filename()));
  }
  return found;
}

// Every socket that this process listens on: "tcp PORT" or "unix NAME", one line each.
std::vector<std::string> listening_sockets() {
  std::vector<std::string> found;
  for (const int fd : open_descriptors()) {
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
      continue;
    }
    sockaddr_storage address{};
    length = sizeof(address);
    FARWRITE_REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    if (address.ss_family == AF_UNIX) {
      const auto& local = reinterpret_cast<const sockaddr_un&>(address);
      found.push_back(
          "unix " + std::string(local.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1));
    } else {
      found.push_back(
          "tcp " + std::to_string(ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port)));
    }
  }
  return found;
}

// A device with the usual limit of descriptors. Opens files, and takes peers, when it is told to.
int crowded(const Arguments& arguments) {
  const rlimit limit{kDescriptors, kDescriptors};
  FARWRITE_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  DeviceOptions options = options_of(arguments.at(0));
  options.handshake_timeout = kHandshake;
  auto device = Device::open(options);
  FARWRITE_REQUIRE_OK(device.status());
  const std::size_t before = open_descriptors().size();
  for (const std::string& socket : listening_sockets()) say("listens " + socket);
  say("endpoint " + device->endpoint().to_string());
  while (const auto order = hear()) {
    if (*order == "files") {
      std::list<core::UniqueFd> files;
      for (rlim_t i = 0; i < kDescriptors / 4; ++i) {
        files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!files.back().valid()) give_up(__FILE__, __LINE__, std::strerror(errno));
      }
      say("opened");
    } else if (*order == "peer") {
      auto channel = device->accept(kPatience);
      FARWRITE_REQUIRE_OK(channel.status());
      auto notification = channel->wait_notification(kPatience);
      FARWRITE_REQUIRE_OK(notification.status());
      FARWRITE_REQUIRE_OK(channel->notify(notification->tag).wait(kPatience));
      say("served");
      FARWRITE_REQUIRE(!channel->wait_notification(kPatience).ok());
    } else {
      FARWRITE_REQUIRE(eventually([&] { return open_descriptors().size() <= before; }));
      say("alone");
    }
  }
  return 0;
}
const RoleRegistration kCrowded("crowded", crowded);

// Connects many times to each of the sockets in its arguments, and says nothing.
int crowd(const Arguments& arguments) {
  std::list<core::UniqueFd> held;
  for (const std::string& argument : arguments) {
    std::istringstream words(argument);
    std::string kind;
    std::string where;
    words >> kind >> where;
    for (int i = 0; i < kEach; ++i) {
      const auto deadline = core::Deadline::after(kPatience);
      auto socket =
          kind == "unix"
              ? fabric::shm::connect_abstract(where, deadline)
              : core::connect_tcp({"127.0.0.1", static_cast<std::uint16_t>(std::stoul(where))},
                                  deadline);
      FARWRITE_REQUIRE_OK(socket.status());
      held.push_back(*std::move(socket));
    }
  }
  say("crowded");
  hear_the_end();
  return 0;
}
const RoleRegistration kCrowd("crowd", crowd);

class IdleCrowd : public FaultTest, public ::testing::WithParamInterface<NamedFabric> {
 protected:
  void SetUp() override {
    if (!GetParam().encrypt) return;
    const Status usable = core::TlsLibrary::open().status();
    if (!usable.ok()) GTEST_SKIP() << usable.message();
  }
};

TEST_P(IdleCrowd, AtEveryListeningSocketLeavesDescriptorsAndLetsPeersIn) {
  ChildProcess victim("crowded", {GetParam().name});
  const std::string endpoint = victim.wait_for("endpoint");
  std::vector<std::string> sockets;
  std::istringstream said(victim.said());
  for (std::string line; std::getline(said, line);) {
    if (line.rfind("listens ", 0) == 0) sockets.push_back(line.substr(std::strlen("listens ")));
  }
  ASSERT_EQ(sockets.size(), 2u) << "a control port, and a fabric's: " << victim.said();
  std::list<ChildProcess> crowds;
  for (int i = 0; i < kCrowds; ++i) crowds.emplace_back("crowd", sockets);
  for (ChildProcess& crowd : crowds) crowd.wait_for("crowded");

  victim.tell("files");
  victim.wait_for("opened");
  victim.tell("peer");
  Device honest = open_device(options_of(GetParam().name));
  auto channel = honest.connect(Endpoint::parse(endpoint).value(), kPatience);
  ASSERT_TRUE(channel.ok()) << channel.status().to_string();
  ASSERT_TRUE(channel->notify(7).wait(kPatience).ok());
  EXPECT_EQ(channel->wait_notification(kPatience).value().tag, 7u);
  victim.wait_for("served");
  EXPECT_TRUE(channel->close().ok());
  EXPECT_TRUE(honest.close(kPatience).ok());

  // What waits for no handshake goes by itself, though the crowd stays and nobody else comes.
  victim.tell("wait");
  victim.wait_for("alone");
  EXPECT_EQ(victim.finish(), 0);
}

INSTANTIATE_TEST_SUITE_P(, IdleCrowd, ::testing::ValuesIn(kNamedFabrics),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace farwrite::fault
