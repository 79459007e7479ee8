#include <utility>

#include "fault/fixture.h"
#include "fault/fork_world.h"

namespace farwrite::fault {
namespace {

using W = ForkWorld;

char bytes[16];
float floats[8];

StatusCode code(const Status& status) { return status.code(); }
template <typename T>
StatusCode code(const Result<T>& result) {
  return result.status().code();
}
// A fact, which a child may read.
template <typename Value>
StatusCode fact(const Value& /*value*/) {
  return StatusCode::kOk;
}
// The value that children get.
StatusCode is(bool expected) { return expected ? StatusCode::kOk : StatusCode::kInternal; }

TensorSpec spec() { return {.dtype = "<f4", .item_bytes = 4, .dims = {8}}; }

box::Change fill() {
  box::Change change;
  change.operation = box::Operation::kFill;
  return change;
}

// What a callback was called with: at once, or kInternal.
struct Heard {
  StatusCode heard = StatusCode::kInternal;
  auto status() {
    return [this](const Status& status) { heard = status.code(); };
  }
};

constexpr StatusCode kForked = StatusCode::kForked;
constexpr StatusCode kOk = StatusCode::kOk;

std::vector<ForkRow> device_rows() {
  return {
      {"Device::open", kOk, [](W&) { return code(Device::open(quick_options())); }},
      {"Device::endpoint", kOk, [](W& w) { return fact(w.device.endpoint()); }},
      {"Device::uuid", kOk, [](W& w) { return fact(w.device.uuid()); }},
      {"Device::epoch", kOk, [](W& w) { return fact(w.device.epoch()); }},
      {"Device::connect", kForked, [](W& w) { return code(w.device.connect(w.other.endpoint())); }},
      {"Device::accept", kForked, [](W& w) { return code(w.device.accept()); }},
      {"Device::allocate", kForked, [](W& w) { return code(w.device.allocate(64)); }},
      {"Device::allocate_raw", kOk, [](W& w) { return is(w.device.allocate_raw(8) == nullptr); }},
      {"Device::free_raw", kOk,
       [](W& w) {
         w.device.free_raw(w.exported.data());
         return kOk;
       }},
      {"Device::contains", kOk, [](W& w) { return is(w.device.contains(w.exported.data())); }},
      {"Device::register_memory", kForked,
       [](W& w) { return code(w.device.register_memory(ByteView(bytes, 16))); }},
      {"Device::publish", kForked, [](W& w) { return code(w.device.publish("x", w.exported)); }},
      {"Device::unpublish", kForked, [](W& w) { return code(w.device.unpublish("export")); }},
      {"Device::stats", kOk, [](W& w) { return is(w.device.stats().send.used == 0); }},
      {"Device::metrics_text", kOk, [](W& w) { return is(w.device.metrics_text().empty()); }},
      {"Device::close", kForked, [](W& w) { return code(w.device.close()); }},
      {"MemoryRegion::data", kOk, [](W& w) { return is(w.exported.data()[0] == std::byte{0}); }},
      {"MemoryRegion::size", kOk, [](W& w) { return fact(w.exported.size()); }},
      {"MemoryRegion::kind", kOk, [](W& w) { return fact(w.exported.kind()); }},
      {"MemoryRegion::access", kOk, [](W& w) { return fact(w.exported.access()); }},
      {"MemoryRegion::descriptor", kOk, [](W& w) { return fact(w.exported.descriptor()); }},
      {"MemoryRegion::close", kForked, [](W& w) { return code(w.landing.close()); }},
      {"RemoteRegion::size", kOk, [](W& w) { return fact(w.remote_landing.size()); }},
      {"RemoteRegion::kind", kOk, [](W& w) { return fact(w.remote_landing.kind()); }},
      {"RemoteRegion::access", kOk, [](W& w) { return fact(w.remote_landing.access()); }},
      {"RemoteRegion::descriptor", kOk, [](W& w) { return fact(w.remote_landing.descriptor()); }},
      {"RemoteRegion::description", kOk, [](W& w) { return fact(w.remote_landing.description()); }},
      {"RemoteRegion::reached", kOk, [](W& w) { return is(w.remote_landing.reached()); }},
      {"Alias::data", kOk, [](W& w) { return fact(w.alias.data()[0]); }},
      {"Alias::size", kOk, [](W& w) { return fact(w.alias.size()); }},
      {"Alias::kind", kOk, [](W& w) { return fact(w.alias.kind()); }},
      {"Completion::done", kOk, [](W& w) { return is(w.pending.done()); }},
      {"Completion::wait", kForked, [](W& w) { return code(w.pending.wait()); }},
      {"Completion::settled", kOk, [](W& w) { return is(w.pending.settled()); }},
      {"Completion::state", kOk, [](W& w) { return is(w.pending.state() != nullptr); }},
      {"Completion::cancel", kOk,
       [](W& w) {
         w.pending.cancel();
         return kOk;
       }},
      {"Completion::on_done", kForked,
       [](W& w) {
         Heard heard;
         w.pending.on_done(heard.status());
         return heard.heard;
       }},
      {"Completion::on_settled", kForked,
       [](W& w) {
         Heard heard;
         w.pending.on_settled(heard.status());
         return heard.heard;
       }},
  };
}

std::vector<ForkRow> channel_rows() {
  const auto write = [](W& w) {
    return code(w.channel.write({bytes, 16}, w.remote_landing).wait());
  };
  return {
      {"Channel::write", kForked, write},
      {"Channel::read", kForked,
       [](W& w) { return code(w.channel.read({bytes, 16}, w.remote_exported).wait()); }},
      {"Channel::write_with_notify", kForked,
       [](W& w) {
         return code(w.channel.write_with_notify({bytes, 16}, w.remote_landing, 0, 1).wait());
       }},
      {"Channel::maps_peer_memory", kOk, [](W& w) { return fact(w.channel.maps_peer_memory()); }},
      {"Channel::flush", kForked, [](W& w) { return code(w.channel.flush().wait()); }},
      {"Channel::alias", kForked,
       [](W& w) { return code(w.channel.alias(w.remote_exported, 0, 16)); }},
      {"Channel::memcpy", kForked,
       [](W& w) {
         return code(w.channel.memcpy(bytes, w.remote_exported, 0, 16, Direction::kFromRemote));
       }},
      {"Channel::notify", kForked, [](W& w) { return code(w.channel.notify(1).wait()); }},
      {"Channel::send", kForked, [](W& w) { return code(w.channel.send({bytes, 16}).wait()); }},
      {"Channel::lend", kForked,
       [](W& w) {
         return code(w.channel.lend({bytes, 16}, {w.exported.data(), 16}, [] {}).wait());
       }},
      {"Channel::max_message_bytes", kOk, [](W& w) { return fact(w.channel.max_message_bytes()); }},
      {"Channel::wait_notification", kForked,
       [](W& w) { return code(w.channel.wait_notification()); }},
      {"Channel::try_notification", kForked,
       [](W& w) { return code(w.channel.try_notification()); }},
      {"Channel::notification_descriptor", kForked,
       [](W& w) { return code(w.channel.notification_descriptor()); }},
      {"Channel::arm_notifications", kForked,
       [](W& w) { return code(w.channel.arm_notifications()); }},
      {"Channel::disarm_notifications", kOk,
       [](W& w) {
         w.channel.disarm_notifications();
         return kOk;
       }},
      {"Channel::on_notification", kForked,
       [](W& w) { return code(w.channel.on_notification([](Notification) {})); }},
      {"Channel::on_end", kForked,
       [](W& w) { return code(w.channel.on_end([](bool, const Status&) {})); }},
      {"Channel::allocate", kForked, [](W& w) { return code(w.channel.allocate(64)); }},
      {"Channel::publish", kForked, [](W& w) { return code(w.channel.publish("x", w.landing)); }},
      {"Channel::lookup", kForked, [](W& w) { return code(w.channel.lookup("export")); }},
      {"Channel::open", kForked,
       [](W& w) { return code(w.channel.open(w.remote_exported.descriptor())); }},
      {"Channel::peer", kOk, [](W& w) { return fact(w.channel.peer()); }},
      {"Channel::peer_name", kOk, [](W& w) { return fact(w.channel.peer_name()); }},
      {"Channel::peer_state", kOk, [](W& w) { return fact(w.channel.peer_state()); }},
      {"Channel::stats", kOk, [](W& w) { return is(w.channel.stats().aliases == 0); }},
      {"Channel::close", kForked, [](W& w) { return code(w.channel.close()); }},
  };
}

std::vector<ForkRow> tensor_and_stream_rows() {
  return {
      {"ReceivedTensor::spec", kOk, [](W& w) { return fact(w.received.spec()); }},
      {"ReceivedTensor::data", kOk, [](W& w) { return fact(w.received.data()[0]); }},
      {"ReceivedTensor::size", kOk, [](W& w) { return fact(w.received.size()); }},
      {"ReceivedTensor::sequence", kOk, [](W& w) { return fact(w.received.sequence()); }},
      {"ReceivedTensor::arrival", kOk, [](W& w) { return fact(w.received.arrival()); }},
      {"TensorReceiver::open", kForked,
       [](W& w) { return code(TensorReceiver::open(w.channel, "x", {})); }},
      {"TensorReceiver::receive", kForked, [](W& w) { return code(w.receiver.receive()); }},
      {"TensorReceiver::wait", kForked, [](W& w) { return code(w.receiver.wait()); }},
      {"TensorReceiver::try_receive", kForked, [](W& w) { return code(w.receiver.try_receive()); }},
      {"TensorReceiver::reset", kForked, [](W& w) { return code(w.receiver.reset()); }},
      {"TensorReceiver::stats", kOk, [](W& w) { return is(w.receiver.stats().pushed == 0); }},
      {"TensorReceiver::close", kForked, [](W& w) { return code(w.receiver.close()); }},
      {"TensorSender::open", kForked,
       [](W& w) { return code(TensorSender::open(w.device, w.channel, "edge")); }},
      {"TensorSender::kind", kOk, [](W& w) { return fact(w.sender.kind()); }},
      {"TensorSender::announced", kOk, [](W& w) { return fact(w.sender.announced()); }},
      {"TensorSender::send", kForked,
       [](W& w) { return code(w.sender.send(spec(), {floats, sizeof(floats)}).wait()); }},
      {"TensorSender::stats", kOk, [](W& w) { return is(w.sender.stats().pushed == 0); }},
      {"TensorSender::abandon", kForked, [](W& w) { return code(w.sender.abandon()); }},
      {"TensorSender::close", kForked, [](W& w) { return code(w.sender.close()); }},
      {"Stream::write", kForked,
       [](W& w) {
         Heard heard;
         w.stream.write({{{bytes, 16}, nullptr}}, heard.status());
         return heard.heard;
       }},
      {"Stream::read", kForked,
       [](W& w) {
         Heard heard;
         w.stream.read([&](const auto& read) { heard.heard = read.status().code(); });
         return heard.heard;
       }},
      {"Stream::finish", kForked,
       [](W& w) {
         Heard heard;
         w.stream.finish(heard.status());
         return heard.heard;
       }},
      {"Stream::abort", kOk,
       [](W& w) {
         w.stream.abort(Status(StatusCode::kCancelled, "the test"));
         return kOk;
       }},
      {"Streams::create", kForked,
       [](W& w) { return code(stream::Streams::create(w.device, w.channel)); }},
      {"Streams::open", kForked, [](W& w) { return code(w.streams.open(7)); }},
      {"Streams::tune", kForked, [](W& w) { return code(w.streams.tune()); }},
      {"Streams::poll", kOk, [](W& w) { return is(!w.streams.poll()); }},
      {"Streams::descriptor", kForked, [](W& w) { return code(w.streams.descriptor()); }},
      {"Streams::arm", kOk, [](W& w) { return is(w.streams.arm()); }},
      {"Streams::disarm", kOk,
       [](W& w) {
         w.streams.disarm();
         return kOk;
       }},
      {"Streams::options", kOk, [](W& w) { return fact(w.streams.options()); }},
      {"Streams::stats", kOk, [](W& w) { return fact(w.streams.stats()); }},
  };
}

std::vector<ForkRow> box_rows() {
  return {
      {"LeasedSegment::bytes", kOk, [](W& w) { return fact(w.leased.bytes().data[0]); }},
      {"LeasedSegment::epoch", kOk, [](W& w) { return fact(w.leased.epoch()); }},
      {"LeasedSegment::version", kOk, [](W& w) { return fact(w.leased.version()); }},
      {"Segment::info", kOk, [](W& w) { return fact(w.segment.info()); }},
      {"Segment::version_id", kForked, [](W& w) { return code(w.segment.version_id()); }},
      {"Segment::version", kForked, [](W& w) { return code(w.segment.version()); }},
      {"Segment::chunk_versions", kForked, [](W& w) { return code(w.segment.chunk_versions()); }},
      {"Segment::read", kForked,
       [](W& w) { return code(w.segment.read({floats, sizeof(floats)})); }},
      {"Segment::post", kForked, [](W& w) { return code(w.segment.post(fill()).done.wait()); }},
      {"Segment::check_wait", kOk, [](W& w) { return w.segment.check_wait().code(); }},
      {"Segment::wait", kForked, [](W& w) { return code(w.segment.wait(99)); }},
      {"Segment::on_version", kForked,
       [](W& w) {
         Heard heard;
         w.segment.on_version(99, [&](const auto& now) { heard.heard = now.status().code(); });
         return heard.heard;
       }},
      {"Segment::cancel", kOk,
       [](W& w) {
         w.segment.cancel(1);
         return StatusCode::kOk;
       }},
      {"Segment::lease", kForked, [](W& w) { return code(w.segment.lease()); }},
      {"Segment::view", kForked, [](W& w) { return code(w.segment.view()); }},
      {"Segment::detach", kForked, [](W& w) { return code(w.segment.detach()); }},
      {"Segment::free", kForked, [](W& w) { return code(w.segment.free()); }},
      {"Client::connect", kOk,
       [](W& w) {
         return code(box::Client::connect(w.server.endpoint(), {.device = quick_options()}));
       }},
      {"Client::create", kForked,
       [](W& w) {
         box::SegmentSpec spec;
         spec.name = "x";
         spec.description = std::string(10000, 'x');
         return code(w.client.create(spec));
       }},
      {"Client::attach", kForked, [](W& w) { return code(w.client.attach("weights")); }},
      {"Client::describe", kForked, [](W& w) { return code(w.client.describe("weights")); }},
      {"Client::list", kForked, [](W& w) { return code(w.client.list()); }},
      {"Client::allocate", kForked, [](W& w) { return code(w.client.allocate(64)); }},
      {"Client::server", kOk, [](W& w) { return fact(w.client.server()); }},
      {"Client::stats", kOk, [](W& w) { return fact(w.client.stats()); }},
      {"Client::close", kForked, [](W& w) { return code(w.client.close()); }},
      {"Server::serve", kOk,
       [](W&) {
         box::ServerOptions options;
         options.device = quick_options();
         options.pool = 0;
         return code(box::Server::serve(options));
       }},
      {"Server::endpoint", kOk, [](W& w) { return fact(w.server.endpoint()); }},
      {"Server::draft", kForked, [](W& w) { return code(w.server.draft(w.segment.info().key)); }},
      {"Server::commit", kForked, [](W& w) { return code(w.server.commit(w.draft)); }},
      {"Server::drop", kOk,
       [](W& w) {
         w.server.drop(w.draft);
         return kOk;
       }},
      {"Server::snapshot", kForked, [](W& w) { return code(w.server.snapshot()); }},
      {"Server::stats", kOk, [](W& w) { return is(w.server.stats().clients == 0); }},
      {"Server::metrics_text", kOk, [](W& w) { return is(w.server.metrics_text().empty()); }},
      {"Server::close", kForked, [](W& w) { return code(w.server.close()); }},
  };
}

}  // namespace

const std::vector<ForkRow>& fork_rows() {
  static const std::vector<ForkRow> all = [] {
    std::vector<ForkRow> rows;
    for (const auto& part :
         {device_rows(), channel_rows(), tensor_and_stream_rows(), box_rows(), c_fork_rows()}) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    return rows;
  }();
  return all;
}

}  // namespace farwrite::fault
