// The table of calls: every public function of a class that holds a handle, and what comes of it. A
// row says only in what it differs from its kind: see matrix_kinds.h.
#include <thread>
#include <utility>

#include "core/deadline.h"
#include "fault/fixture.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

using W = MatrixWorld;

const float floats[8] = {};
const ByteView kSource(floats, sizeof(floats));

box::Change fill() {
  box::Change change;
  change.operation = box::Operation::kFill;
  return change;
}

box::SegmentSpec long_segment() {
  box::SegmentSpec spec;
  spec.name = "other";
  spec.description = std::string(10000, 'd');
  return spec;
}

box::ReadOptions short_read() {
  box::ReadOptions options;
  options.timeout = limit();
  return options;
}

std::vector<Row> device_rows() {
  return {
      fact("Device::open", [](W&) { return Device::open(quick_options()); }),
      fact("Device::endpoint", [](W& w) { return w.device.endpoint(); }),
      fact("Device::uuid", [](W& w) { return w.device.uuid(); }),
      fact("Device::epoch", [](W& w) { return w.device.epoch(); }),
      peer("Device::connect", [](W& w) { return w.device.connect(w.peer, limit()); },
           {{"killed", kNoAnswer}, {"closed", kNoAnswer}}),
      own("Device::accept", [](W& w) { return w.device.accept(limit()); },
          {{"none", kLate}, {"killed", kLate}, {"stopped", kLate}, {"closed", kLate}}),
      own("Device::allocate", [](W& w) { return w.device.allocate(64); }),
      count("Device::allocate_raw",
            [](W& w) {
              std::byte* const memory = w.device.allocate_raw(8);
              const bool nothing = memory == nullptr;
              w.device.free_raw(memory);
              return w.counted(nothing);
            }),
      fact("Device::free_raw", [](W& w) { w.device.free_raw(nullptr); }),
      count("Device::contains",
            [](W& w) { return w.in_child(w.device.contains(w.exported.data())); },
            {{"forked", kReturns}}),
      own("Device::register_memory", [](W& w) { return w.device.register_memory(kSource); }),
      own("Device::publish", [](W& w) { return w.device.publish("other", w.exported); }),
      own("Device::unpublish", [](W& w) { return w.device.unpublish("export"); }),
      count("Device::stats", [](W& w) { return w.counted(w.device.stats().send.used == 0); }),
      count("Device::metrics_text",
            [](W& w) { return w.counted(w.device.metrics_text().empty()); }),
      ending("Device::close", [](W& w) { return w.device.close(limit()); }),
      fact("MemoryRegistration::memory", [](W& w) { return w.registration.memory(); }),
      fact("MemoryRegistration::has_effect", [](W& w) { return w.registration.has_effect(); }),
      fact("MemoryRegistration::release", [](W& w) { w.registration.release(); }),
      fact("MemoryRegion::data", [](W& w) { return w.exported.data()[0]; }),
      fact("MemoryRegion::size", [](W& w) { return w.exported.size(); }),
      fact("MemoryRegion::kind", [](W& w) { return w.exported.kind(); }),
      fact("MemoryRegion::access", [](W& w) { return w.exported.access(); }),
      fact("MemoryRegion::descriptor", [](W& w) { return w.exported.descriptor(); }),
      ending("MemoryRegion::close", [](W& w) { return w.landing.close(limit()); }),
      fact("RemoteRegion::size", [](W& w) { return w.inbox.size(); }),
      fact("RemoteRegion::kind", [](W& w) { return w.inbox.kind(); }),
      fact("RemoteRegion::access", [](W& w) { return w.inbox.access(); }),
      fact("RemoteRegion::descriptor", [](W& w) { return w.inbox.descriptor(); }),
      fact("RemoteRegion::description", [](W& w) { return w.inbox.description(); }),
      fact("RemoteRegion::reached", [](W& w) { return w.inbox.reached(); }),
      fact("Alias::data",
           [](W& w) { return w.alias.size() == 0 ? std::byte{} : w.alias.data()[0]; }),
      fact("Alias::size", [](W& w) { return w.alias.size(); }),
      fact("Alias::kind", [](W& w) { return w.alias.kind(); }),
      fact("Completion::done", [](W& w) { return w.in_child(w.pending.done()); }),
      count("Completion::wait", [](W& w) { return w.pending.wait(limit()); },
            {{"none", kLate},
             {"killed", kLate},
             {"stopped", kLate},
             {"closed", kLate},
             {"shut", kLate},
             {"parent", kLate}}),
      fact("Completion::settled", [](W& w) { return w.in_child(w.pending.settled()); }),
      fact("Completion::cancel", [](W& w) { w.cancelled.cancel(); }),
      count("Completion::on_done",
            [](W& w) {
              Answer& answer = w.answer("Completion::on_done");
              w.cancelled.on_done(answer.taker());
              w.cancelled.cancel();
              return w.counted(answer.wait().code() == StatusCode::kForked);
            }),
      count("Completion::on_settled",
            [](W& w) {
              const Completion ended{Status()};
              Answer& answer = w.answer("Completion::on_settled");
              (::getpid() == w.owner ? ended : w.pending).on_settled(answer.taker());
              return answer.wait();
            }),
  };
}

std::vector<Row> channel_rows() {
  static char out[8][64];
  return {
      peer("Channel::write", [](W& w) { return w.channel.write(kSource, w.inbox); },
           {{"stopped", kReturns}}),
      peer("Channel::read",
           [](W& w) { return w.channel.read(MutableByteView(out[0], 64), w.outbox); },
           {{"stopped", kOneSided}, {"closed", kStillRead}}),
      peer("Channel::write_with_notify",
           [](W& w) { return w.channel.write_with_notify(kSource, w.inbox, 0, 1); },
           {{"stopped", kReturns}}),
      fact("Channel::maps_peer_memory", [](W& w) { return w.channel.maps_peer_memory(); }),
      peer("Channel::flush",
           [](W& w) {
             (void)w.channel.write(kSource,
                                   w.inbox);  // without a write there is nothing to wait for
             return w.channel.flush();
           },
           {{"stopped", kOneSided}}),
      own("Channel::alias", [](W& w) { return w.channel.alias(w.outbox, 0, 16); },
          {{"none", kMapped},
           {"killed", kMapped},
           {"stopped", kMapped},
           {"closed", kMapped},
           {"shut", kMapped},
           {"parent", kMapped}}),
      peer("Channel::memcpy",
           [](W& w) {
             return w.channel.memcpy(out[1], w.outbox, 0, 16, Direction::kFromRemote, limit());
           },
           {{"stopped", kOneSided}, {"closed", kStillRead}}),
      peer("Channel::notify", [](W& w) { return w.channel.notify(1); }, {{"stopped", kReturns}}),
      peer("Channel::send", [](W& w) { return w.channel.send(kSource); }, {{"stopped", kReturns}}),
      peer("Channel::lend",
           [](W& w) {
             Answer& answer = w.answer("Channel::lend");
             const Completion lent = w.channel.lend(kSource, {w.exported.data(), 16},
                                                    [&answer] { answer.take(Status()); });
             // It never runs if the completion has an error when lend() returns.
             const bool refused = lent.done() && !lent.wait().ok();
             return refused ? answer.refused(lent.wait()) : lent.wait(limit());
           },
           {{"stopped", kReturns}}),
      fact("Channel::max_message_bytes", [](W& w) { return w.channel.max_message_bytes(); }),
      peer("Channel::wait_notification", [](W& w) { return w.channel.wait_notification(limit()); },
           {{"none", kLate}}),
      peer("Channel::try_notification", [](W& w) { return w.channel.try_notification(); },
           {{"stopped", kReturns}}),
      own("Channel::notification_descriptor",
          [](W& w) { return w.channel.notification_descriptor(); }),
      own("Channel::arm_notifications", [](W& w) { return w.channel.arm_notifications(); }),
      fact("Channel::disarm_notifications", [](W& w) { w.channel.disarm_notifications(); }),
      own("Channel::on_notification", [](W& w) { return w.channel.on_notification(nullptr); }),
      own("Channel::on_end", [](W& w) { return w.channel.on_end([](bool, const Status&) {}); }),
      peer("Channel::allocate", [](W& w) { return w.channel.allocate(64); },
           {{"stopped", kReturns}}),
      peer("Channel::publish", [](W& w) { return w.channel.publish("other", w.exported); },
           {{"stopped", kReturns}}),
      peer("Channel::lookup", [](W& w) { return w.channel.lookup("outbox", limit()); }),
      peer("Channel::open", [](W& w) { return w.channel.open(w.outbox.descriptor(), limit()); }),
      fact("Channel::peer", [](W& w) { return w.channel.peer(); }),
      fact("Channel::peer_name", [](W& w) { return w.channel.peer_name(); }),
      fact("Channel::peer_state", [](W& w) { return w.channel.peer_state(); }),
      count("Channel::stats", [](W& w) { return w.counted(w.channel.stats().aliases == 0); }),
      ending("Channel::close", [](W& w) { return w.channel.close(limit()); }),
  };
}

std::vector<Row> tensor_rows() {
  return {
      fact("ReceivedTensor::spec", [](W& w) { return w.received.spec(); }),
      fact("ReceivedTensor::data", [](W& w) { return w.received.data()[0]; }),
      fact("ReceivedTensor::size", [](W& w) { return w.received.size(); }),
      fact("ReceivedTensor::sequence", [](W& w) { return w.received.sequence(); }),
      fact("ReceivedTensor::arrival", [](W& w) { return w.received.arrival(); }),
      peer("TensorReceiver::open",
           [](W& w) { return TensorReceiver::open(w.tensors, "other", {}); },
           {{"stopped", kReturns}}),
      peer("TensorReceiver::receive", [](W& w) { return w.receiver.receive(limit()); },
           {{"none", kLate}, {"closed", "EndOfStream"}}),
      peer("TensorReceiver::wait", [](W& w) { return w.receiver.wait(limit()); },
           // receive() returns at once then, with the error.
           {{"none", kLate},
            {"killed", kReturns},
            {"closed", kReturns},
            {"shut", kReturns},
            {"parent", kReturns}}),
      peer("TensorReceiver::try_receive",
           [](W& w) {
             // While another thread takes what comes, there is nothing for this one.
             const core::Deadline deadline = core::Deadline::after(kShort);
             auto received = w.receiver.try_receive();
             while (received.ok() && !deadline.expired()) {
               std::this_thread::sleep_for(std::chrono::milliseconds(1));
               received = w.receiver.try_receive();
             }
             return received.status();
           },
           {{"stopped", kReturns}, {"closed", "EndOfStream"}}),
      own("TensorReceiver::reset", [](W& w) { return w.receiver.reset(); }, {{"parent", kReturns}}),
      count("TensorReceiver::stats",
            [](W& w) { return w.counted(w.receiver.stats().pushed == 0); }),
      ending("TensorReceiver::close", [](W& w) { return w.receiver.close(limit()); }),
      peer("TensorSender::open",
           [](W& w) { return TensorSender::open(w.device, w.tensors, "nobody's", limit()); },
           {{"none", kLate}}),
      fact("TensorSender::kind", [](W& w) { return w.sender.kind(); }),
      fact("TensorSender::announced", [](W& w) { return w.sender.announced(); }),
      peer("TensorSender::send",
           [](W& w) { return w.sender.send(matrix_tensor(), kSource, limit()); },
           {{"stopped", kReturns}}),
      count("TensorSender::stats", [](W& w) { return w.counted(w.sender.stats().pushed == 0); }),
      ending("TensorSender::abandon", [](W& w) { return w.sender.abandon(); }),
      ending("TensorSender::close", [](W& w) { return w.sender.close(limit()); }),
  };
}

std::vector<Row> stream_rows() {
  return {
      peer("Stream::write",
           [](W& w) {
             Answer& answer = w.answer("Stream::write");
             w.stream.write({{kSource, nullptr}}, answer.taker());
             return answer.wait();
           },
           {{"stopped", kReturns}}),
      peer("Stream::read",
           [](W& w) {
             Answer& answer = w.answer("Stream::read");
             w.read_stream.read([&answer](const auto& read) { answer.take(read.status()); });
             return answer.wait();
           },
           {{"none", kLate}}),
      peer("Stream::finish",
           [](W& w) {
             Answer& answer = w.answer("Stream::finish");
             w.finished_stream.finish(answer.taker());
             return answer.wait();
           }),
      ending("Stream::abort",
             [](W& w) {
               const Status reason =
                   Status::error(StatusCode::kCancelled, {"stream"}, "the test", "end it");
               for (stream::Stream* one : {&w.stream, &w.read_stream, &w.finished_stream}) {
                 one->abort(reason);
               }
             },
             {{"forked", kReturns}}),
      own("Streams::create", [](W& w) { return stream::Streams::create(w.device, w.spare); }),
      peer("Streams::open", [](W& w) { return w.streams.open(7); }, {{"stopped", kReturns}}),
      peer("Streams::tune", [](W& w) { return w.streams.tune(); }),
      count("Streams::poll", [](W& w) { return w.in_child(!w.polled.poll()); },
            {{"forked", kReturns}}),
      own("Streams::descriptor", [](W& w) { return w.polled.descriptor(); }),
      fact("Streams::arm", [](W& w) { return w.in_child(w.polled.arm()); }),
      fact("Streams::disarm", [](W& w) { w.polled.disarm(); }),
      fact("Streams::options", [](W& w) { return w.streams.options(); }),
      count("Streams::stats", [](W& w) { return w.counted(w.streams.stats().messages == 0); }),
  };
}

std::vector<Row> box_rows() {
  static char out[4][64];
  return {
      fact("LeasedSegment::bytes", [](W& w) { return w.leased.bytes().data[0]; }),
      fact("LeasedSegment::epoch", [](W& w) { return w.leased.epoch(); }),
      fact("LeasedSegment::version", [](W& w) { return w.leased.version(); }),
      fact("Segment::info", [](W& w) { return w.segment.info(); }),
      peer("Segment::version_id", [](W& w) { return w.segment.version_id(); },
           {{"stopped", kOneSided}}),
      peer("Segment::version", [](W& w) { return w.segment.version(); }, {{"stopped", kOneSided}}),
      peer("Segment::chunk_versions", [](W& w) { return w.segment.chunk_versions(); },
           {{"stopped", kOneSided}}),
      peer("Segment::read",
           [](W& w) { return w.segment.read(MutableByteView(out[0], 32), 0, short_read()); },
           {{"stopped", kOneSided}}),
      peer("Segment::post", [](W& w) { return w.segment.post(fill(), limit()).done; }),
      fact("Segment::check_wait", [](W& w) { return w.segment.check_wait(); }),
      peer("Segment::wait", [](W& w) { return w.segment.wait(99, limit()); }, {{"none", kLate}}),
      peer("Segment::on_version",
           [](W& w) {
             Answer& answer = w.answer("Segment::on_version");
             w.segment.on_version(99, [&answer](const auto& now) { answer.take(now.status()); });
             return answer.wait();
           },
           {{"none", kLate}}),
      fact("Segment::cancel", [](W& w) { w.segment.cancel(1); }),
      peer("Segment::lease", [](W& w) { return w.segment.lease(limit()); }),
      peer("Segment::view", [](W& w) { return w.segment.view(); },
           {{"none", Outcome::by_fabric(kReturns, "Unsupported")},
            {"killed", Outcome::by_fabric("PeerDead", "Unsupported")},
            {"stopped", Outcome::by_fabric(kReturns, "Unsupported")},
            {"closed", Outcome::by_fabric("Unavailable", "Unsupported")},
            {"shut", {"Cancelled", "FailedPrecondition", "Unsupported"}},
            {"parent", {"Cancelled", "FailedPrecondition", "Unsupported"}}}),
      ending("Segment::detach", [](W& w) { return w.segment.detach(); }),
      peer("Segment::free", [](W& w) { return w.freed_segment.free(); }),
      fact("Client::connect",
           [](W& w) {
             box::ClientOptions options;
             options.device = matrix_options(w.fabric);
             options.timeout = limit();
             return box::Client::connect(w.peer_box, options);
           },
           {{"killed", kNoAnswer}, {"closed", kNoAnswer}, {"stopped", kSilent}}),
      peer("Client::create", [](W& w) { return w.client.create(long_segment()); }),
      peer("Client::attach", [](W& w) { return w.client.attach("weights", limit()); }),
      peer("Client::describe", [](W& w) { return w.client.describe("weights"); }),
      peer("Client::list", [](W& w) { return w.client.list(); }),
      own("Client::allocate", [](W& w) { return w.client.allocate(64); }),
      fact("Client::server", [](W& w) { return w.client.server(); }),
      count("Client::stats", [](W& w) { return w.counted(w.client.stats().changes == 0); }),
      ending("Client::close", [](W& w) { return w.client.close(limit()); }),
      fact("Server::serve",
           [](W&) {
             box::ServerOptions options;
             options.device = quick_options();
             options.pool = 0;
             options.threads = 1;
             return box::Server::serve(options);
           }),
      fact("Server::endpoint", [](W& w) { return w.server.endpoint(); }),
      own("Server::draft",
          [](W& w) {
            auto draft = w.server.draft(w.drafted_key);
            if (draft.ok()) w.server.drop(*draft);
            return draft.status();
          }),
      own("Server::commit", [](W& w) { return w.server.commit(w.draft); }),
      fact("Server::drop", [](W& w) { w.server.drop(w.dropped); }),
      own("Server::snapshot", [](W& w) { return w.server.snapshot(); }),
      count("Server::stats", [](W& w) { return w.counted(w.server.stats().clients == 0); }),
      count("Server::metrics_text",
            [](W& w) { return w.counted(w.server.metrics_text().empty()); }),
      ending("Server::close", [](W& w) { return w.server.close(limit()); }),
  };
}

}  // namespace

const std::vector<Row>& matrix_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (const auto& part : {device_rows(), channel_rows(), tensor_rows(), stream_rows(),
                             box_rows(), matrix_c_rows(), matrix_c_about_rows(),
                             matrix_c_tensor_rows(), matrix_c_stream_rows(), matrix_c_box_rows()}) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    return rows;
  }();
  return all;
}

}  // namespace farwrite::fault
