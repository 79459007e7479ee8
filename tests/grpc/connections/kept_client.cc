// A client of many streams on one connection that keeps every message to the end.
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "client.h"
#include "kept_messages.h"

namespace farwrite::connections {
namespace {

constexpr std::chrono::seconds kPatience{50};
constexpr int kStreams = 64;
// HTTP/2's frames and first windows, of which 5 bytes are gRPC's.
constexpr size_t kFrame = 16384 - 5;
constexpr size_t kWindow = 65535 - 5;

struct Load {
  int messages = 0;  // in each direction of a stream
  std::vector<size_t> sizes;
};
const std::vector<Load> kLoads = {
    // A first window is followed by a short rest, which is sent by itself.
    {4, {kWindow - 1, kWindow, kWindow + 1, kWindow + 100, kWindow + 1000}},
    {12, {1000, kFrame, kFrame + 1, kWindow, kWindow + 1000, 100'000, 150'000, 1'000'003}},
};

class ClientEnd final
    : public Exchange<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  ClientEnd(grpc::GenericStub& stub, const Batch& up, const Batch& down) : Exchange(up, down) {
    context_.AddMetadata(kUpKey, up.encode());
    context_.AddMetadata(kDownKey, down.encode());
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    stub.PrepareBidiStreamingCall(&context_, kExchangeMethod, {}, this);
    read();
    write();
    StartCall();
  }
  grpc::Status wait() { return status_.get_future().get(); }

 private:
  void sent_all() override { StartWritesDone(); }
  void received_all() override {}
  void OnDone(const grpc::Status& status) override { status_.set_value(status); }

  grpc::ClientContext context_;
  std::promise<grpc::Status> status_;
};

void keep(const Load& load, grpc::GenericStub& stub, bool up, bool down) {
  std::vector<std::unique_ptr<ClientEnd>> streams;
  uint64_t seed = 1;
  for (int i = 0; i < kStreams; ++i) {
    const size_t bytes = load.sizes[static_cast<size_t>(i) % load.sizes.size()];
    const auto batch = [&](bool used) {
      const Batch made = {seed, used ? load.messages : 0, bytes};
      seed += static_cast<uint64_t>(load.messages);
      return made;
    };
    const Batch sends = batch(up);
    streams.push_back(std::make_unique<ClientEnd>(stub, sends, batch(down)));
  }
  for (const auto& stream : streams) {
    const grpc::Status status = stream->wait();
    require(status.ok(), "a stream ended badly: " + status.error_message());
  }
  std::string faults;
  for (const auto& stream : streams) {
    const std::string fault = stream->kept.check();
    if (!fault.empty()) faults += "\n  " + fault;
  }
  require(faults.empty(), "of a stream:" + faults);
}

// With windows that grow with the bandwidth, and with the first ones, which cut more messages.
void keep_messages(const std::string& port, bool up, bool down) {
  for (const int grows : {1, 0}) {
    for (const Load& load : kLoads) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, grows);
      grpc::GenericStub stub(open_channel(port, arguments));
      keep(load, stub, up, down);
    }
  }
}

// The only answer to a message of bytes that gRPC does not count.
void send_static(grpc::GenericStub& stub, size_t bytes) {
  const Batch up = {1, 1, bytes};
  const Batch down = {2, 1, 1};
  std::vector<grpc::Slice> slices;
  require(up.message(0).Dump(&slices).ok() && slices.size() == 1, "a message has no slice");
  const grpc::Slice borrowed(slices[0].begin(), bytes, grpc::Slice::STATIC_SLICE);
  const grpc::ByteBuffer message(&borrowed, 1);
  grpc::ByteBuffer answer;
  grpc::ClientContext context;
  context.AddMetadata(kUpKey, up.encode());
  context.AddMetadata(kDownKey, down.encode());
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, kExchangeMethod, {}, &message, &answer,
                 [&](const grpc::Status& status) { ended.set_value(status); });
  const grpc::Status status = ended.get_future().get();
  require(status.ok(), "a message of static bytes did not arrive: " + status.error_message());
}

}  // namespace

void send_static_messages(const Ports& ports) {
  grpc::GenericStub stub(open_channel(ports[0]));
  for (const size_t bytes :
       {size_t{1}, size_t{100}, kFrame + 1, kWindow + 1000, size_t{3'000'000}}) {
    for (int i = 0; i < 3; ++i) send_static(stub, bytes);
  }
}

void keep_messages_down(const Ports& ports) { keep_messages(ports[0], false, true); }
void keep_messages_up(const Ports& ports) { keep_messages(ports[0], true, false); }
void keep_messages_both_ways(const Ports& ports) { keep_messages(ports[0], true, true); }

}  // namespace farwrite::connections
