#include "fault/fork_world.h"

#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "c_api/handles.h"
#include "core/completion_state.h"
#include "fault/fixture.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr std::uint64_t kWorldBytes = 4096;

void connect(Device& from, Device& to, Channel& channel, Channel& accepted) {
  std::thread thread([&] { accepted = to.accept(kPatience).value(); });
  channel = from.connect(to.endpoint(), kPatience).value();
  thread.join();
}

fw_tensor_handlers handlers() {
  fw_tensor_handlers all = {};
  all.struct_size = sizeof(all);
  all.on_message = [](void*, const fw_notification*) {};
  all.on_end = [](void*, int, const char*) {};
  all.on_landing = [](void*, const fw_landing* landing) { fw_landed_release(landing->landed); };
  all.on_slot = [](int) {};
  all.run_later = [](std::uint64_t, void (*work)(void*), void* context) {
    std::thread(work, context).detach();
  };
  return all;
}

TensorSpec eight_floats() { return {.dtype = "<f4", .item_bytes = 4, .dims = {8}}; }

box::SegmentSpec world_weights() {
  box::SegmentSpec spec;
  spec.name = "weights";
  spec.dims = {8};
  return spec;
}

}  // namespace

ForkWorld::ForkWorld() : device(open_device()), other(open_device()) {
  connect(device, other, channel, far);
  exported = device.allocate(kWorldBytes).value();
  landing = channel.allocate(kWorldBytes).value();
  const MemoryRegion theirs = other.allocate(kWorldBytes).value();
  FARWRITE_REQUIRE_OK(other.publish("export", theirs));
  FARWRITE_REQUIRE_OK(far.publish("landing", far.allocate(kWorldBytes).value()));
  remote_landing = channel.lookup("landing").value();
  remote_exported = channel.lookup("export").value();
  alias = channel.alias(remote_exported, 0, kWorldBytes).value();
  pending = Completion(std::make_shared<core::CompletionState>());

  connect(device, other, tensors_, far_tensors_);
  ReceiverOptions options;
  options.kind = EdgeKind::kStatic;
  options.spec = eight_floats();
  receiver = TensorReceiver::open(far_tensors_, "edge", options).value();
  sender = TensorSender::open(device, tensors_, "edge").value();
  const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  FARWRITE_REQUIRE_OK(sender.send(eight_floats(), {ones, sizeof(ones)}).wait(kPatience));
  received = receiver.receive(kPatience).value();

  Channel near_streams;
  Channel other_streams;
  connect(device, other, near_streams, other_streams);
  streams = stream::Streams::create(device, near_streams).value();
  far_streams = stream::Streams::create(other, other_streams).value();
  stream = streams.open(1).value();

  box::ServerOptions server_options;
  server_options.device = quick_options();
  server_options.memory = std::uint64_t{64} << 20;
  server_options.pool = 0;
  server_options.threads = 3;
  server = box::Server::serve(server_options).value();
  client = box::Client::connect(server.endpoint(), {.device = quick_options()}).value();
  segment = client.create(world_weights()).value();
  leased = segment.lease(kPatience).value();
  draft = server.draft(segment.info().key).value();

  connect(device, other, engine_, far_engine_);
  c_device = new fw_device{device};
  c_channel = new fw_channel{channel};
  c_tensors = new fw_channel{engine_};
  const fw_tensor_handlers all = handlers();
  FARWRITE_REQUIRE(fw_channel_serve_tensors(c_tensors, &all, nullptr) == nullptr);
  c_region = new fw_region{channel.allocate(kWorldBytes).value()};
  c_target = new fw_target{channel, remote_landing};
  c_view = new fw_view{channel, remote_exported};
}

ForkWorld::~ForkWorld() {
  fw_view_release(c_view);
  fw_target_release(c_target);
  fw_region_release(c_region);
  fw_status_free(fw_channel_close(c_tensors, 1000000000));
  delete c_channel;
  delete c_device;
}

void ForkWorld::use() {
  char bytes[16] = {};
  FARWRITE_REQUIRE_OK(channel.write({bytes, 16}, remote_landing).wait(kPatience));
  FARWRITE_REQUIRE_OK(channel.read({bytes, 16}, remote_exported).wait(kPatience));
  const float twos[8] = {2, 2, 2, 2, 2, 2, 2, 2};
  FARWRITE_REQUIRE_OK(sender.send(eight_floats(), {twos, sizeof(twos)}).wait(kPatience));
  FARWRITE_REQUIRE(std::memcmp(receiver.receive(kPatience).value().data(), twos, sizeof(twos)) ==
                   0);
  FARWRITE_REQUIRE_OK(streams.open(2).status());
  box::Change fill;
  fill.operation = box::Operation::kFill;
  fill.factor = 3;
  FARWRITE_REQUIRE_OK(segment.post(fill).done.wait(kPatience));
  FARWRITE_REQUIRE(server.commit(draft).ok());
  FARWRITE_REQUIRE(server.stats().clients == 1);
  FARWRITE_REQUIRE_OK(landing.close(kPatience));
  FARWRITE_REQUIRE_OK(client.close(kPatience));
  FARWRITE_REQUIRE_OK(server.close(kPatience));
}

}  // namespace farwrite::fault
