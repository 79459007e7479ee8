// RpcService: answers the RecvTensor requests of one other task, which come by one link.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "farwrite/channel.h"
#include "link.h"
#include "rpc_frame.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::experiments {

// Thread-safe. Replies may outlive the link; they go nowhere then.
class RpcService : public std::enable_shared_from_this<RpcService> {
 public:
  using Schedule = std::function<void(std::function<void()>)>;
  using Reply = std::function<void(const absl::Status&, const tensorflow::Tensor&, bool is_dead)>;
  // Finds the tensor of a request, and calls `reply` once, on any thread.
  using Find = std::function<void(tensorflow::CallOptions*, const tensorflow::RecvTensorRequest&,
                                  Reply reply)>;

  RpcService(Find find, Schedule schedule)
      : find_(std::move(find)), schedule_(std::move(schedule)) {}

  // Reads requests until the link ends.
  Status run(Channel channel);

 private:
  struct Request {
    tensorflow::RecvTensorRequest message;
    tensorflow::CallOptions options;
  };

  Status read_request();
  void cancel(std::uint64_t id);
  void reply(std::uint64_t id, const absl::Status& status, const tensorflow::Tensor& value,
             bool is_dead);
  void send_tensor(std::uint64_t id, const tensorflow::Tensor& value, bool is_dead);
  void send_status(std::uint64_t id, const absl::Status& status);

  const Find find_;
  const Schedule schedule_;
  std::shared_ptr<Link> link_;  // set by run(), before anything is asked

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Request>> requests_;  // not answered
};

}  // namespace farwrite::experiments
