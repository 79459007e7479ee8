#include "rpc_node.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "tensorflow/core/platform/logging.h"

namespace farwrite::experiments {
namespace {

namespace tf = ::tensorflow;

// As many as TensorFlow's gRPC client has for replies.
constexpr int kThreads = 8;
// A task's device opens before its server answers, so this is long.
constexpr std::chrono::seconds kConnectFor(30);

std::mutex& nodes_mutex() {
  static auto* const only = new std::mutex;
  return *only;
}

std::set<RpcNode*>& nodes() {
  static auto* const only = new std::set<RpcNode*>;
  return *only;
}

Result<std::vector<FabricKind>> fabrics_from_environment() {
  const char* const value = std::getenv("FARWRITE_FABRICS");
  std::string_view rest = value == nullptr ? "" : value;
  if (rest.empty()) return DeviceOptions().fabrics;
  std::vector<FabricKind> found;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    Result<FabricKind> fabric = parse_fabric(name);
    if (!fabric.ok()) return fabric.status();
    found.push_back(*fabric);
  }
  return found;
}

Result<Device> open_device(const std::string& task, const PeerTable& peers) {
  Result<Endpoint> own = peers.find(task);
  if (!own.ok()) return own.status();
  Result<std::vector<FabricKind>> fabrics = fabrics_from_environment();
  if (!fabrics.ok()) return fabrics.status();
  DeviceOptions options;
  options.listen = *std::move(own);
  options.fabrics = *std::move(fabrics);
  options.name = task;
  // As Farwrite's plug-in: a thread that spins takes a core from kernels.
  options.spin = std::chrono::nanoseconds(1);
  return Device::open(options);
}

absl::Status refused(const Status& reason) {
  const bool is_setting =
      reason.code() == StatusCode::kInvalidArgument || reason.code() == StatusCode::kNotFound;
  const std::string message = "rpc-over-fabric: " + reason.message();
  return is_setting ? absl::InvalidArgumentError(message) : absl::UnavailableError(message);
}

}  // namespace

absl::Status RpcNode::open(const std::string& task, RpcNode** node) {
  Result<PeerTable> peers = PeerTable::from_environment();
  if (!peers.ok()) return refused(peers.status());
  Result<Device> device = open_device(task, *peers);
  if (!device.ok()) return refused(device.status());
  *node = new RpcNode(task, *std::move(peers), *std::move(device));
  const std::lock_guard<std::mutex> lock(nodes_mutex());
  nodes().insert(*node);
  return absl::OkStatus();
}

RpcNode::RpcNode(std::string task, PeerTable peers, Device device)
    : task_(std::move(task)),
      peers_(std::move(peers)),
      device_(std::move(device)),
      pool_(kThreads) {}

std::set<RpcNode*> RpcNode::all() {
  const std::lock_guard<std::mutex> lock(nodes_mutex());
  return nodes();
}

std::set<std::string> RpcNode::fabrics() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fabrics_;
}

RpcClient::Schedule RpcNode::schedule() {
  return [this](std::function<void()> work) { pool_.schedule(std::move(work)); };
}

void RpcNode::start_thread(std::function<void()> body) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++threads_;
  }
  std::thread([this, body = std::move(body)] {
    body();
    const std::lock_guard<std::mutex> lock(mutex_);
    --threads_;
    thread_ended_.notify_all();
  }).detach();
}

void RpcNode::serve(RpcService::Find find) {
  start_thread([this, find = std::move(find)] { accept_all(find); });
}

void RpcNode::accept_all(const RpcService::Find& find) {
  while (true) {
    Result<Channel> channel = device_.accept();
    if (!channel.ok()) return;  // the device is closed
    start_thread([this, find, channel = *std::move(channel)] {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        fabrics_.insert(std::string(to_string(channel.peer().fabric)));
      }
      const auto service = std::make_shared<RpcService>(find, schedule());
      const Status ended = service->run(channel);
      if (ended.code() == StatusCode::kProtocolError) {
        LOG(WARNING) << "rpc-over-fabric: " << ended.message();
      }
    });
  }
}

void RpcNode::receive(const std::string& task, tf::CallOptions* options,
                      const tf::RecvTensorRequest& request, tf::TensorResponse* response,
                      RpcClient::Done done) {
  Result<std::shared_ptr<RpcClient>> found = client(task);
  if (found.ok()) return (*found)->receive(options, request, response, std::move(done));
  pool_.schedule([done = std::move(done), status = refused(found.status())] { done(status); });
}

Result<std::shared_ptr<RpcClient>> RpcNode::client(const std::string& task) {
  if (closed_.load()) return Status(StatusCode::kUnavailable, "the server has ended");
  std::shared_ptr<RpcClient> made;
  Endpoint endpoint;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<RpcClient>& place = clients_[task];
    if (place != nullptr) return place;
    Result<Endpoint> known = peers_.find(task);
    if (!known.ok()) return known.status();
    endpoint = *std::move(known);
    place = made = std::make_shared<RpcClient>(schedule());
  }
  start_thread([this, task, endpoint, made] { connect(task, endpoint, made); });
  return made;
}

void RpcNode::connect(const std::string& task, const Endpoint& endpoint,
                      const std::shared_ptr<RpcClient>& client) {
  client->run([&]() -> Result<Channel> {
    Result<Channel> channel = device_.connect(endpoint, kConnectFor);
    if (!channel.ok()) return channel.status();
    const std::lock_guard<std::mutex> lock(mutex_);
    fabrics_.insert(std::string(to_string(channel->peer().fabric)));
    return channel;
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = clients_.find(task);
  if (found != clients_.end() && found->second == client) clients_.erase(found);  // a new one next
}

void RpcNode::close() {
  closed_.store(true);
  (void)device_.close();  // a peer that does not settle changes nothing here
  std::unique_lock<std::mutex> lock(mutex_);
  thread_ended_.wait(lock, [this] { return threads_ == 0; });
}

}  // namespace farwrite::experiments
