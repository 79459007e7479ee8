// A crowd of idle connections to everything that a device listens on: it holds few descriptors, and
// honest peers still come in.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
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
constexpr int kEach = 367;             // of all, more than the limit
constexpr int kFew = 40;

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

// A device with the usual limit of descriptors, and so many seconds for a handshake. Opens files,
// and takes peers, when it is told to.
int crowded(const Arguments& arguments) {
  const rlimit limit{kDescriptors, kDescriptors};
  FARWRITE_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  DeviceOptions options = options_of(arguments.at(0));
  options.handshake_timeout = std::chrono::seconds(std::stoi(arguments.at(1)));
  // So that tcp listens before a peer needs it.
  options.tcp.data_port = core::listen_tcp({"127.0.0.1", 0}).value().endpoint.port;
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

// Whether the peer closes the connection within kPatience; it may say why before.
bool sees_the_end(const core::UniqueFd& socket) {
  const auto deadline = core::Deadline::after(kPatience);
  char buffer[4096];
  while (true) {
    pollfd entry{socket.get(), POLLIN, 0};
    if (::poll(&entry, 1, deadline.poll_timeout_ms()) <= 0) return false;
    if (::recv(socket.get(), buffer, sizeof(buffer), 0) <= 0) return true;
  }
}

// Connects so many times to each of the sockets in its other arguments, and says nothing to
// them. Looks for their end when it is told to.
int crowd(const Arguments& arguments) {
  const int each = std::stoi(arguments.at(0));
  std::list<core::UniqueFd> held;
  for (std::size_t argument = 1; argument < arguments.size(); ++argument) {
    std::istringstream words(arguments[argument]);
    std::string kind;
    std::string where;
    words >> kind >> where;
    for (int i = 0; i < each; ++i) {
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
  while (hear()) {
    for (const core::UniqueFd& socket : held) FARWRITE_REQUIRE(sees_the_end(socket));
    say("gone");
  }
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

  // Crowds of so many processes, with so many connections of each to every listening socket.
  static std::list<ChildProcess> crowds_at(const ChildProcess& victim, int processes, int each) {
    std::vector<std::string> arguments{std::to_string(each)};
    std::istringstream said(victim.said());
    for (std::string line; std::getline(said, line);) {
      if (line.rfind("listens ", 0) == 0) arguments.push_back(line.substr(std::strlen("listens ")));
    }
    EXPECT_EQ(arguments.size(), 3u) << "a control port, and a fabric's: " << victim.said();
    std::list<ChildProcess> crowds;
    for (int i = 0; i < processes; ++i) crowds.emplace_back("crowd", arguments);
    for (ChildProcess& crowd : crowds) crowd.wait_for("crowded");
    return crowds;
  }
};

TEST_P(IdleCrowd, AtEveryListeningSocketLeavesDescriptorsAndLetsPeersIn) {
  // On a busy machine the handshake of an honest peer takes long, and the crowd must not go before.
  ChildProcess victim("crowded", {GetParam().name, std::to_string(kPatience.count())});
  const std::string endpoint = victim.wait_for("endpoint");
  const std::list<ChildProcess> crowds = crowds_at(victim, kCrowds, kEach);

  victim.tell("files");
  victim.wait_for("opened");
  victim.tell("peer");
  DeviceOptions patient = options_of(GetParam().name);
  patient.handshake_timeout = kPatience;
  Device honest = open_device(patient);
  auto channel = honest.connect(Endpoint::parse(endpoint).value(), kPatience);
  ASSERT_TRUE(channel.ok()) << channel.status().to_string();
  ASSERT_TRUE(channel->notify(7).wait(kPatience).ok());
  EXPECT_EQ(channel->wait_notification(kPatience).value().tag, 7u);
  victim.wait_for("served");
  EXPECT_TRUE(channel->close().ok());
  EXPECT_TRUE(honest.close(kPatience).ok());
  EXPECT_EQ(victim.finish(), 0);
}

// What waits for no handshake goes by itself, though the crowd stays and nothing else comes.
TEST_P(IdleCrowd, IsGoneWhenTheTimeForAHandshakeIsOver) {
  ChildProcess victim("crowded", {GetParam().name, "1"});
  victim.wait_for("endpoint");
  std::list<ChildProcess> crowds = crowds_at(victim, 1, kFew);
  crowds.front().tell("look");
  crowds.front().wait_for("gone");
  victim.tell("wait");
  victim.wait_for("alone");
  EXPECT_EQ(victim.finish(), 0);
}

INSTANTIATE_TEST_SUITE_P(, IdleCrowd, ::testing::ValuesIn(kNamedFabrics),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace farwrite::fault
