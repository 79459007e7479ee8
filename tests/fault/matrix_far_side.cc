#include "fault/matrix_far_side.h"

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "c_api/handles.h"
#include "c_handles.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/matrix_world.h"
#include "fault/role.h"
#include "simulated/simulated_kind.h"

namespace farwrite::fault {
namespace {

// Takes what comes, until the end or an error.
void read_on(const std::shared_ptr<stream::Stream>& stream) {
  stream->read([stream](const Result<std::vector<stream::Slice>>& read) {
    if (read.ok() && !read.value().empty()) read_on(stream);
  });
}

void release_landed(void* /*context*/, const fw_landing* landing) {
  fw_landed_release(landing->landed);
}

// A device, a box, and the other ends of what is used.
struct FarHandles {
  FarHandles(const std::string& endpoint, const std::string& box, const std::string& fabric)
      : device(open_device(matrix_options(fabric))) {
    const Endpoint near = Endpoint::parse(endpoint).value();
    std::uint32_t number = 0;
    for (const char* name : kMatrixChannels) {
      channels[name] = device.connect(near, kPatience).value();
      FARWRITE_REQUIRE_OK(channels[name].notify(number++).wait(kPatience));
    }
    outbox = device.allocate(kMatrixBytes).value();
    FARWRITE_REQUIRE_OK(device.publish("outbox", outbox));
    Channel& channel = channels["channel"];
    inbox = channel.allocate(kMatrixBytes).value();
    FARWRITE_REQUIRE_OK(channel.publish("inbox", inbox));
    ReceiverOptions options;
    options.kind = EdgeKind::kStatic;
    options.spec = matrix_tensor();
    receiver = TensorReceiver::open(channels["tensors"], "to the peer", options).value();
    for (const char* name : {"streams", "polled"}) {
      all_streams.push_back(stream::Streams::create(device, channels[name]).value());
      for (std::uint64_t number = 1; number <= 6; ++number) {
        read_on(std::make_shared<stream::Stream>(all_streams.back().open(number).value()));
      }
    }
    c_engine = new fw_channel{channels["c_engine"]};
    const fw_tensor_handlers handlers = matrix_handlers(release_landed);
    FARWRITE_REQUIRE(fw_channel_serve_tensors(c_engine, &handlers, nullptr) == nullptr);
    fw_channel_want_slots(c_engine, "edge", 4, 16);
    server = box::Server::serve(matrix_box(fabric)).value();
    box::ClientOptions client_options;
    client_options.device = matrix_options(fabric);
    client = box::Client::connect(Endpoint::parse(box).value(), client_options).value();
  }

  ~FarHandles() { close_engine(); }
  FarHandles(const FarHandles&) = delete;
  FarHandles& operator=(const FarHandles&) = delete;

  // What needs the other side's ends.
  void send() {
    sender = TensorSender::open(device, channels["tensors"], "edge", kPatience).value();
    const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    FARWRITE_REQUIRE_OK(sender.send(matrix_tensor(), {ones, sizeof(ones)}).wait(kPatience));
    FARWRITE_REQUIRE(eventually([&] { return fw_channel_has_slot(c_engine, "back", 4, 16) == 1; }));
    int pushed = 0;
    FARWRITE_REQUIRE(fw_channel_push(
                         c_engine, "back", 4, "d", 1, ones, 16, 0, [](void*, const fw_status*) {},
                         nullptr, &pushed) == nullptr);
    FARWRITE_REQUIRE(pushed == 1);
  }

  // Everything, normally.
  void close() {
    (void)sender.close(kShort);
    (void)receiver.close(kShort);
    FARWRITE_REQUIRE_OK(client.close(kPatience));
    FARWRITE_REQUIRE_OK(server.close(kPatience));
    close_engine();
    FARWRITE_REQUIRE_OK(device.close(kPatience));
  }

  void close_engine() {
    if (c_engine == nullptr) return;
    fw_status_free(finish(std::exchange(c_engine, nullptr), 1'000'000'000));
  }

  Device device;
  std::map<std::string, Channel> channels;
  MemoryRegion outbox, inbox;
  TensorReceiver receiver;
  TensorSender sender;
  std::vector<stream::Streams> all_streams;
  fw_channel* c_engine = nullptr;
  box::Server server;
  box::Client client;
};

// Arguments: the endpoints of the near device and of its box, and the fabric.
int far_side(const Arguments& arguments) {
  FarHandles side(arguments.at(0), arguments.at(1), arguments.at(2));
  say("at " + side.device.endpoint().to_string());
  say("box " + side.server.endpoint().to_string());
  side.send();
  say("ready");
  if (hear().has_value()) {
    side.close();
    say("closed");
    hear_the_end();
  }
  return 0;
}
const RoleRegistration kFarSide("matrix far side", far_side);

class FarProcess final : public FarSide {
 public:
  FarProcess(const std::string& device, const std::string& box, const std::string& fabric)
      : process_("matrix far side", {device, box, fabric}) {}
  std::string wait_for(const std::string& word) override { return process_.wait_for(word); }
  void kill() override { process_.kill(); }
  void stop() override { process_.stop(); }
  void resume() override { process_.resume(); }
  void close() override {
    process_.tell("close");
    process_.wait_for("closed");
  }

 private:
  ChildProcess process_;
};

class FarThread final : public FarSide {
 public:
  FarThread(const std::string& device, const std::string& box, const std::string& fabric)
      : thread_([=, this, known = matrix_network().addresses()] {
          handles_ = std::make_unique<FarHandles>(device, box, fabric);
          for (const std::string& address : matrix_network().addresses()) {
            if (std::find(known.begin(), known.end(), address) == known.end()) {
              addresses_.push_back(address);
            }
          }
          said_["at"].set_value(handles_->device.endpoint().to_string());
          said_["box"].set_value(handles_->server.endpoint().to_string());
          handles_->send();
          said_["ready"].set_value("");
        }) {}
  ~FarThread() override { thread_.join(); }
  std::string wait_for(const std::string& word) override {
    return said_.at(word).get_future().get();
  }
  void kill() override {
    for (const std::string& address : addresses_) matrix_network().kill(address);
  }
  void stop() override { FARWRITE_REQUIRE(false); }
  void resume() override {}
  void close() override { handles_->close(); }

 private:
  std::map<std::string, std::promise<std::string>> said_ = [] {
    std::map<std::string, std::promise<std::string>> words;
    for (const char* word : {"at", "box", "ready"}) words[word];
    return words;
  }();
  std::vector<std::string> addresses_;
  std::unique_ptr<FarHandles> handles_;
  std::thread thread_;
};

}  // namespace

fabric::SimulatedNetwork& matrix_network() {
  static fabric::SimulatedNetwork network;
  static const fabric::FabricRegistration registered(fabric::simulated_entry(network));
  return network;
}

std::unique_ptr<FarSide> FarSide::open(const std::string& device, const std::string& box,
                                       const std::string& fabric) {
  if (fabric == "simulated") return std::make_unique<FarThread>(device, box, fabric);
  return std::make_unique<FarProcess>(device, box, fabric);
}
}  // namespace farwrite::fault
