// A peer that reads over tcp what was not lent to it: the fabric that serves reads refuses.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "core/tcp_socket.h"
#include "device/channel_records.h"
#include "device/handshake.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/hostile_identity.h"
#include "fault/role.h"
#include "plain_sockets.h"

namespace farwrite::fault {
namespace {

constexpr std::size_t kReadBytes = 4096;

struct ReadObserver final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

// What its device lends to it.
struct LendSink final : fabric::EventSink {
  void on_notification(Notification&&) override {}
  void on_record(Notification&& record) override {
    lend = device::LendRecord::from_bytes({record.message.data(), record.message.size()}).value();
  }
  std::optional<device::LendRecord> lend;
};

// Reads what it was lent, and then what it was not. Arguments: endpoint, and the key and the offset
// of what another peer was lent.
int reader(const Arguments& arguments) {
  const Endpoint target = Endpoint::parse(arguments.at(0)).value();
  auto loop = *core::EventLoop::start("hostile");
  auto fabric = *fabric::tcp::TcpFabric::create(*loop, fabric::tcp::FabricOptions::of({}));
  const device::LocalIdentity self = hostile_identity(*fabric);
  const core::Deadline soon = core::Deadline::after(kPatience);
  const core::UniqueFd socket = *core::connect_tcp(target, soon);
  ReadObserver observer;
  auto introduction =
      device::introduce_connecting(socket.get(), self, target.to_string(), soon, &observer);
  FARWRITE_REQUIRE_OK(introduction.status());
  fabric::Link& link = *introduction->link;
  LendSink sink;
  FARWRITE_REQUIRE(eventually([&] {
    (void)link.lane(0).poll(sink);
    return sink.lend.has_value();
  }));

  std::vector<std::byte> bytes(2 * kReadBytes);
  const auto read = [&](std::uint64_t key, std::uint64_t offset, std::size_t length) {
    RegionDescriptor descriptor;
    descriptor.offset = offset;
    descriptor.length = length;
    descriptor.keys.push_back({FabricKind::kTcp, key});
    fabric::Operation operation;
    operation.kind = fabric::OperationKind::kRead;
    operation.window = link.import(descriptor, soon).value();
    operation.destination = {bytes.data(), length};
    const Completion done = link.lane(0).post(operation);
    FARWRITE_REQUIRE(eventually([&] {
      (void)link.lane(0).poll(sink);
      return done.done();
    }));
    return done.wait();
  };
  FARWRITE_REQUIRE_OK(read(sink.lend->key, sink.lend->offset, kReadBytes));
  FARWRITE_REQUIRE(bytes[0] == std::byte{1} && bytes[kReadBytes - 1] == std::byte{1});
  FARWRITE_REQUIRE(read(sink.lend->key, sink.lend->offset, kReadBytes + 1).code() ==
                   StatusCode::kPermissionDenied);
  const std::uint64_t key = std::stoull(arguments.at(1));
  const std::uint64_t secret = std::stoull(arguments.at(2));
  FARWRITE_REQUIRE(key == sink.lend->key);  // of the one segment, which it could read otherwise
  for (const std::size_t length : {std::size_t{1}, kReadBytes}) {
    FARWRITE_REQUIRE(read(key, secret, length).code() == StatusCode::kPermissionDenied);
  }
  FARWRITE_REQUIRE(read(key + 1000, secret, 1).code() == StatusCode::kNotFound);
  say("refused");
  hear_the_end();
  return 0;
}
const RoleRegistration kReader("reader of strangers' memory", reader);

class ReadStranger : public FaultTest {};

TEST_F(ReadStranger, ReadsWhatItWasLentAndNothingThatOthersWere) {
  DeviceOptions options = quick_options();
  options.fabrics = {FabricKind::kTcp};
  Device device = open_device(options);
  Device honest = open_device(options);
  Channel to_honest = honest.connect(device.endpoint(), kPatience).value();
  Channel from_honest = device.accept(kPatience).value();
  auto secret = device.allocate(kReadBytes).value();
  auto lent = device.allocate(kReadBytes).value();
  std::memset(secret.data(), 2, kReadBytes);
  std::memset(lent.data(), 1, kReadBytes);
  ASSERT_TRUE(from_honest.lend({}, {secret.data(), kReadBytes}, [] {}).wait(kPatience).ok());
  Notification held = to_honest.wait_notification(kPatience).value();
  {
    const RegionDescriptor place = secret.descriptor();
    ChildProcess child("reader of strangers' memory",
                       {device.endpoint().to_string(), std::to_string(place.keys.at(0).key),
                        std::to_string(place.offset)});
    Channel channel = device.accept(kPatience).value();
    ASSERT_TRUE(channel.lend({}, {lent.data(), kReadBytes}, [] {}).wait(kPatience).ok());
    child.wait_for("refused");
  }
  std::vector<std::byte> bytes(kReadBytes);
  ASSERT_TRUE(to_honest.read({bytes.data(), kReadBytes}, held.lent).wait(kPatience).ok());
  EXPECT_EQ(bytes, std::vector<std::byte>(kReadBytes, std::byte{2}));
  held = {};
  lent = MemoryRegion();
  secret = MemoryRegion();
  EXPECT_TRUE(honest.close(kPatience).ok());
  EXPECT_TRUE(device.close(kPatience).ok());
}

}  // namespace
}  // namespace farwrite::fault
