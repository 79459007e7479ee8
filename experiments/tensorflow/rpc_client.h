// RpcClient: the RecvTensor calls to one other task, and the link that carries them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farwrite/channel.h"
#include "farwrite/device.h"
#include "link.h"
#include "rpc_frame.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/tensor_coding.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::experiments {

// Thread-safe. Calls made while the link is being opened wait for it.
class RpcClient : public std::enable_shared_from_this<RpcClient> {
 public:
  using Schedule = Link::Schedule;
  using Done = std::function<void(const absl::Status&)>;

  explicit RpcClient(Schedule schedule) : schedule_(std::move(schedule)) {}

  // As WorkerInterface::RecvTensorAsync(). `done` never runs in this call.
  void receive(tensorflow::CallOptions* options, const tensorflow::RecvTensorRequest& request,
               tensorflow::TensorResponse* response, Done done);
  // Opens the link by `connect` and reads replies until the link ends, which ends all calls.
  void run(const std::function<Result<Channel>()>& connect);

 private:
  struct Call {
    tensorflow::CallOptions* options = nullptr;
    tensorflow::TensorResponse* response = nullptr;
    Done done;
  };

  Status open(const std::function<Result<Channel>()>& connect);
  Status read_reply();
  void begin_reading(std::uint64_t id);
  Status read_body(const RpcHead& head);
  Status read_tensor(std::uint64_t bytes, Call call);
  void parse_later(std::shared_ptr<std::string> bytes, Call call);
  void send(std::string frame);
  void cancel(std::uint64_t id);
  std::uint64_t last_id();
  // False if there is none, or no longer.
  bool take(std::uint64_t id, Call* call);
  void finish(Call call, absl::Status status);
  void fail(const Status& reason);

  const Schedule schedule_;
  std::shared_ptr<Link> link_;  // set once by run()'s thread, with the lock

  std::mutex mutex_;
  std::map<std::uint64_t, Call> calls_;
  std::vector<std::string> unsent_;  // while there is no link
  std::uint64_t last_id_ = 0;
  std::uint64_t reading_ = 0;  // the call whose reply is being read; 0: none
  absl::Status failed_;
};

}  // namespace farwrite::experiments
