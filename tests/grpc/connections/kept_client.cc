// Clients that keep messages: one of many streams on one connection, which keeps every message to
// the end, and one that makes the calls that a test orders.
#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "client.h"
#include "kept_messages.h"

namespace farwrite::connections {
namespace {

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

// A call that has begun; it is over before it is destroyed.
class Call {
 public:
  virtual ~Call() = default;
  virtual KeptMessages& messages() = 0;
  void cancel() { context_.TryCancel(); }
  grpc::Status wait() { return ended_.get(); }

 protected:
  Call(const Batch& up, const Batch& down, std::chrono::milliseconds limit, size_t keep)
      : ended_(status_.get_future()) {
    context_.AddMetadata(kUpKey, up.encode());
    context_.AddMetadata(kDownKey, down.encode());
    if (keep > 0) context_.AddMetadata(kKeepKey, std::to_string(keep));
    context_.set_wait_for_ready(keep > 0);
    context_.set_deadline(std::chrono::system_clock::now() + limit);
  }
  void end(const grpc::Status& status) {
    std::promise<grpc::Status> last = std::move(status_);  // who waits may destroy this
    last.set_value(status);
  }

  grpc::ClientContext context_;

 private:
  std::promise<grpc::Status> status_;
  std::future<grpc::Status> ended_;
};

class ClientEnd final
    : public Call,
      public Exchange<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  ClientEnd(grpc::GenericStub& stub, const Batch& up, const Batch& down,
            std::chrono::milliseconds limit = kPatience, size_t keep = 0)
      : Call(up, down, limit, keep), Exchange(up, down) {
    stub.PrepareBidiStreamingCall(&context_, kExchangeMethod, {}, this);
    read();
    write();
    StartCall();
  }
  KeptMessages& messages() override { return kept; }

 private:
  void sent_all() override { StartWritesDone(); }
  void received_all() override {}
  void OnDone(const grpc::Status& status) override { end(status); }
};

// One message in each direction.
class UnaryCall final : public Call {
 public:
  UnaryCall(grpc::GenericStub& stub, const Batch& up, const Batch& down, grpc::ByteBuffer message,
            std::chrono::milliseconds limit = kPatience, size_t keep = 0)
      : Call(up, down, limit, keep), kept_(down), message_(std::move(message)) {
    stub.UnaryCall(&context_, kExchangeMethod, {}, &message_, kept_.next(),
                   [this](const grpc::Status& status) {
                     if (!status.ok()) kept_.ended();
                     end(status);
                   });
  }
  KeptMessages& messages() override { return kept_; }

 private:
  KeptMessages kept_;
  grpc::ByteBuffer message_;
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
  const grpc::Status status = UnaryCall(stub, up, down, grpc::ByteBuffer(&borrowed, 1)).wait();
  require(status.ok(), "a message of static bytes did not arrive: " + status.error_message());
}

// The calls and channels of a client that does what a test orders. An order is a word with its
// arguments; each returns a line.
class Orders {
 public:
  explicit Orders(const std::string& port) : port_(port) {}
  ~Orders() {
    for (const auto& [number, call] : calls_) call->cancel();
    for (const auto& [number, call] : calls_) call->wait();
  }

  std::string obey(const std::string& line) {
    std::istringstream rest(line);
    std::string order;
    int number = 0;
    rest >> order >> number;
    if (order == "open") return open_stub(number), "";
    if (order == "close") return channels_.erase(number), "";
    if (order == "start") return start(number, rest), "";
    if (order == "cancel") return calls_.at(number)->cancel(), "";
    if (order == "end") return end(number);
    if (order == "check") return check();
    if (order == "drop") return kept_.erase(number), "";
    if (order == "descriptors") return use_descriptors(number == 0), "";
    require(false, "no such order: " + line);
    return "";
  }

 private:
  void open_stub(int channel) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    channels_[channel] = std::make_unique<grpc::GenericStub>(open_channel(port_, arguments));
  }

  // start CALL CHANNEL MILLISECONDS KEEP, then count and bytes up and down; no counts: unary.
  void start(int number, std::istream& rest) {
    int channel = 0;
    int limit = 0;
    size_t keep = 0;
    Batch up;
    Batch down;
    rest >> channel >> limit >> keep >> up.count >> up.bytes >> down.count >> down.bytes;
    up.seed = static_cast<uint64_t>(number) << 20;
    down.seed = up.seed + (1 << 19);
    grpc::GenericStub& stub = *channels_.at(channel);
    const std::chrono::milliseconds at_most(limit);
    if (up.count == 0 && down.count == 0) {
      up.count = down.count = 1;
      calls_[number] = std::make_unique<UnaryCall>(stub, up, down, up.message(0), at_most, keep);
    } else {
      calls_[number] = std::make_unique<ClientEnd>(stub, up, down, at_most, keep);
    }
  }

  // Waits. Returns the status, how many messages came, what is wrong with them, and why it ended.
  std::string end(int number) {
    Call& call = *calls_.at(number);
    const grpc::Status status = call.wait();
    const KeptMessages& kept = kept_.emplace(number, std::move(call.messages())).first->second;
    calls_.erase(number);
    return std::to_string(status.error_code()) + "\t" + std::to_string(kept.count()) + "\t" +
           (status.ok() ? kept.check() : kept.changed()) + "\t" + status.error_message();
  }

  // What is wrong with the messages that are kept of calls that have ended.
  std::string check() const {
    std::string faults;
    for (const auto& [number, kept] : kept_) {
      const std::string fault = kept.changed();
      if (!fault.empty()) faults += "of call " + std::to_string(number) + ": " + fault + "; ";
    }
    return faults;
  }

  // Uses up all descriptors of this process, or gives them back.
  void use_descriptors(bool all) {
    for (const int used : used_) ::close(used);
    used_.clear();
    while (all && used_.emplace_back(dup(STDIN_FILENO)) >= 0) {
    }
  }

  const std::string port_;
  std::map<int, std::unique_ptr<grpc::GenericStub>> channels_;
  std::map<int, std::unique_ptr<Call>> calls_;
  std::map<int, KeptMessages> kept_;
  std::vector<int> used_;
};

}  // namespace

void send_static_messages(const Ports& ports) {
  grpc::GenericStub stub(open_channel(ports[0]));
  for (const size_t bytes :
       {size_t{1}, size_t{100}, kFrame + 1, kWindow + 1000, size_t{3'000'000}}) {
    for (int i = 0; i < 3; ++i) send_static(stub, bytes);
  }
}

void obey(const Ports& ports) {
  Orders orders(ports[0]);
  for (std::string order; std::getline(std::cin, order);) {
    std::string answer = orders.obey(order);
    std::replace(answer.begin(), answer.end(), '\n', ' ');
    announce(answer);
  }
}

void keep_messages_down(const Ports& ports) { keep_messages(ports[0], false, true); }
void keep_messages_up(const Ports& ports) { keep_messages(ports[0], true, false); }
void keep_messages_both_ways(const Ports& ports) { keep_messages(ports[0], true, true); }

}  // namespace farwrite::connections
