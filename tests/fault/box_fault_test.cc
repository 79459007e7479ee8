// A box whose clients die or stop, and whose server dies: nothing is lost, torn or held up.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "box/box.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr std::uint64_t kElements = 3 * box::kChunkBytes / sizeof(float);

DeviceOptions box_options(const std::string& fabric) {
  DeviceOptions options = quick_options();
  options.fabrics = {parse_fabric(fabric).value()};
  options.send_limit = std::uint64_t{64} << 20;
  return options;
}

box::ServerOptions server_options(const std::string& fabric) {
  box::ServerOptions options;
  options.device = box_options(fabric);
  options.memory = std::uint64_t{64} << 20;
  options.pool = 0;
  options.threads = 2;
  return options;
}

Result<box::Client> connect(const Endpoint& endpoint, const std::string& fabric) {
  return box::Client::connect(endpoint, {.device = box_options(fabric), .timeout = kPatience});
}

box::SegmentSpec weights() {
  box::SegmentSpec spec;
  spec.name = "weights";
  spec.dims = {kElements};
  return spec;
}

box::Change add(const std::vector<float>& values) {
  box::Change change;
  change.operation = box::Operation::kAccumulate;
  change.memory = {values.data(), values.size() * sizeof(float)};
  return change;
}

std::vector<float> read(const box::Segment& segment) {
  std::vector<float> values(segment.info().bytes / sizeof(float));
  const auto result = segment.read({values.data(), values.size() * sizeof(float)});
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return values;
}

// The one value of every element, or nothing if they differ.
std::optional<float> value_of(const std::vector<float>& values) {
  for (const float value : values) {
    if (value != values.front()) return std::nullopt;
  }
  return values.front();
}

// Adds ones to the segment "weights", several changes on their way at a time, until its end; it
// also holds a lease and a temporary segment. Arguments: endpoint, fabric.
int box_adder(const Arguments& arguments) {
  auto client = connect(Endpoint::parse(arguments.at(0)).value(), arguments.at(1));
  FARWRITE_REQUIRE_OK(client.status());
  auto segment = client->attach("weights");
  FARWRITE_REQUIRE_OK(segment.status());
  box::SegmentSpec scratch = weights();
  scratch.name = "scratch " + arguments.at(2);
  scratch.temporary = true;
  const auto held = client->create(scratch);
  FARWRITE_REQUIRE_OK(held.status());
  const auto lease = held.value().lease(kPatience);
  FARWRITE_REQUIRE_OK(lease.status());
  const std::vector<float> ones(kElements, 1.0F);
  std::vector<box::Update> updates;
  for (int round = 1;; ++round) {
    for (int i = 0; i < 3; ++i) updates.push_back(segment->post(add(ones)));
    for (const box::Update& update : updates) FARWRITE_REQUIRE_OK(update.done.wait(kPatience));
    updates.clear();
    say("round " + std::to_string(round));
  }
}
const RoleRegistration kBoxAdder("box adder", box_adder);

// Serves a box with snapshots. Arguments: fabric, directory, "restore" or "new".
int box_server(const Arguments& arguments) {
  box::ServerOptions options = server_options(arguments.at(0));
  options.snapshot_directory = arguments.at(1);
  options.restore = arguments.at(2) == "restore";
  auto server = box::Server::serve(options);
  FARWRITE_REQUIRE_OK(server.status());
  say("serving " + server->endpoint().to_string());
  while (const auto line = hear()) {
    FARWRITE_REQUIRE_OK(server->snapshot());
    say("snapshot");
  }
  return 0;
}
const RoleRegistration kBoxServer("box server", box_server);

class BoxFault : public FaultTest, public testing::WithParamInterface<const char*> {
 protected:
  void serve() {
    auto server = box::Server::serve(server_options(GetParam()));
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
    client_ = connect(server_.endpoint(), GetParam()).value();
    segment_ = client_.create(weights()).value();
  }

  std::vector<std::string> adder(int number) {
    return {server_.endpoint().to_string(), GetParam(), std::to_string(number)};
  }

  void TearDown() override {
    segment_ = box::Segment();
    if (client_.valid()) {
      EXPECT_TRUE(client_.close(kPatience).ok());
    }
    client_ = box::Client();
    if (server_.valid()) {
      EXPECT_TRUE(server_.close(kPatience).ok());
    }
    server_ = box::Server();
    FaultTest::TearDown();
  }

  box::Server server_;
  box::Client client_;
  box::Segment segment_;
};

TEST_P(BoxFault, AKilledClientHasChangedWhollyOrNotAtAll) {
  serve();
  for (int number = 0; number < 4; ++number) {
    ChildProcess child("box adder", adder(number));
    child.wait_for("round " + std::to_string(1 + number));
    child.kill();
  }
  EXPECT_TRUE(eventually([&] { return server_.stats().clients == 1; }));
  const std::optional<float> value = value_of(read(segment_));
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(static_cast<float>(segment_.version().value()), *value);
  EXPECT_GE(*value, 30.0F);
  // What it had is free: its lease, and its temporary segment.
  EXPECT_TRUE(eventually([&] { return server_.stats().segments == 1; }));
  EXPECT_EQ(0U, server_.stats().leases);
}

TEST_P(BoxFault, AStoppedClientHoldsUpNobody) {
  serve();
  ChildProcess child("box adder", adder(0));
  child.wait_for("round 1");
  child.stop();
  const std::vector<float> ones(kElements, 1.0F);
  for (int i = 0; i < 20; ++i) {
    const Status status = segment_.post(add(ones)).done.wait(kPatience);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(value_of(read(segment_)).has_value());
  }
  child.resume();
  child.wait_for("round 5");
}

TEST_P(BoxFault, AKilledServerEndsEveryCallAndItsSnapshotComesBack) {
  const std::string directory =
      testing::TempDir() + "farwrite-box-" + GetParam() + "-" + std::to_string(::getpid());
  std::filesystem::create_directory(directory);
  std::uint64_t key = 0;
  {
    ChildProcess serving("box server", {GetParam(), directory, "new"});
    const Endpoint endpoint = Endpoint::parse(serving.wait_for("serving")).value();
    client_ = connect(endpoint, GetParam()).value();
    segment_ = client_.create(weights()).value();
    key = segment_.info().key;
    const std::vector<float> ones(kElements, 1.0F);
    ASSERT_TRUE(segment_.post(add(ones)).done.wait(kPatience).ok());
    serving.tell("snapshot");
    serving.wait_for("snapshot");
    ASSERT_TRUE(segment_.post(add(ones)).done.wait(kPatience).ok());

    std::atomic<bool> called = false;
    segment_.on_version(100, [&](const Result<box::VersionId>& version) {
      called = version.status().code() == StatusCode::kPeerDead;
    });
    const box::Update late = segment_.post(add(ones));
    serving.kill();
    EXPECT_TRUE(eventually([&] { return called.load(); }));
    static_cast<void>(late.done.wait(kPatience));  // it may have been applied; it ends
    EXPECT_TRUE(late.done.done());
    EXPECT_FALSE(segment_.post(add(ones)).done.wait(kPatience).ok());
    segment_ = box::Segment();
    static_cast<void>(client_.close(kPatience));
    client_ = box::Client();
  }
  ChildProcess restored("box server", {GetParam(), directory, "restore"});
  const Endpoint endpoint = Endpoint::parse(restored.wait_for("serving")).value();
  client_ = connect(endpoint, GetParam()).value();
  segment_ = client_.attach(key).value();
  EXPECT_EQ("weights", segment_.info().spec.name);
  EXPECT_EQ(1U, segment_.version().value());
  EXPECT_EQ(1.0F, value_of(read(segment_)));
  std::filesystem::remove_all(directory);
}

// Elsewhere a read waits for the server.
class BoxFaultOnOneHost : public BoxFault {};

TEST_P(BoxFaultOnOneHost, AStoppedServerIsReadWhereItsMemoryIsMapped) {
  const std::string directory =
      testing::TempDir() + "farwrite-stopped-" + std::to_string(::getpid());
  std::filesystem::create_directory(directory);
  ChildProcess serving("box server", {GetParam(), directory, "new"});
  client_ = connect(Endpoint::parse(serving.wait_for("serving")).value(), GetParam()).value();
  segment_ = client_.create(weights()).value();
  read(segment_);
  const std::vector<float> ones(kElements, 1.0F);
  serving.stop();
  EXPECT_EQ(0.0F, value_of(read(segment_)));
  const box::Update update = segment_.post(add(ones));
  EXPECT_EQ(StatusCode::kDeadlineExceeded, update.done.wait(std::chrono::milliseconds(50)).code());
  serving.resume();
  EXPECT_TRUE(update.done.wait(kPatience).ok());
  EXPECT_EQ(1.0F, value_of(read(segment_)));
  std::filesystem::remove_all(directory);
}

// Where the client's process sends the bytes of a change.
class BoxFaultBetweenHosts : public BoxFault {};

TEST_P(BoxFaultBetweenHosts, TheServerClosesAlthoughAClientIsHeldUpAmidItsChanges) {
  serve();
  std::promise<void> held, resumed;
  // In the thread that would send them.
  segment_.on_version(1, [&](const Result<box::VersionId>&) {
    held.set_value();
    resumed.get_future().wait();
  });
  box::Change signal;
  signal.operation = box::Operation::kSignal;
  segment_.post(signal);
  held.get_future().wait();
  const std::vector<float> ones(kElements, 1.0F);
  box::Change whole = add(ones);
  whole.operation = box::Operation::kWrite;
  const box::Update updates[] = {segment_.post(whole), segment_.post(add(ones)),
                                 segment_.post(signal)};
  EXPECT_TRUE(eventually([&] {
    return server_.metrics_text().find("operation=\"read\",direction=\"in\"} 0") ==
           std::string::npos;
  }));
  EXPECT_TRUE(server_.close(kPatience).ok());
  EXPECT_EQ(1U, server_.stats().changes) << "what follows a change that was lost is applied";
  resumed.set_value();
  for (const box::Update& update : updates) EXPECT_FALSE(update.done.wait(kPatience).ok());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, BoxFault, testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Fabrics, BoxFaultBetweenHosts, testing::Values("tcp"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Fabrics, BoxFaultOnOneHost, testing::Values("shm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace farwrite::fault
