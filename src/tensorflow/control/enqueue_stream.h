// EnqueueStream: the requests of this process to one eager context of another task, in order: by
// Farwrite where a channel leads there, else by gRPC's stream, and never by both at once.
//
// As with a stream of gRPC's, an error ends what was sent after it, and the next request begins
// anew.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "control/control_cluster.h"
#include "tensorflow/core/distributed_runtime/eager/eager_client.h"
#include "tensorflow/core/protobuf/eager_service.pb.h"

namespace farwrite::plugin {

// Thread-safe.
class EnqueueStream : public std::enable_shared_from_this<EnqueueStream> {
 public:
  // `stock` calls the same task by gRPC.
  EnqueueStream(std::shared_ptr<const ControlCluster> cluster, std::string task,
                tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient> stock)
      : cluster_(std::move(cluster)), task_(std::move(task)), stock_(std::move(stock)) {}

  // `response` is filled before `done`, which is called once, under no lock; `request` may go at
  // once.
  void send(const tensorflow::eager::EnqueueRequest& request,
            tensorflow::eager::EnqueueResponse* response, tensorflow::StatusCallback done);
  // Ends what was sent by Farwrite as cancelled.
  void close();
  // Whether gRPC's stream was ever used.
  bool used_grpc();

 private:
  // One sent request, or one that waits until it may be sent.
  struct Request {
    tensorflow::eager::EnqueueResponse* response = nullptr;
    tensorflow::StatusCallback done;
    tensorflow::eager::EnqueueRequest held;
  };
  using Position = std::uint64_t;

  // Under mutex_. False: not by Farwrite now.
  bool begin(const tensorflow::eager::EnqueueRequest& request, Request& sent);
  void answered(std::uint64_t number, Position position, const absl::Status& status,
                tensorflow::eager::EnqueueResponse& response);
  // Ends all that is under way by Farwrite or waits.
  void end(const absl::Status& status);
  void send_by_grpc(const tensorflow::eager::EnqueueRequest& request, Request sent);
  // Sends what waits, once nothing is under way by Farwrite.
  void send_held();

  const std::shared_ptr<const ControlCluster> cluster_;
  const std::string task_;
  const tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient> stock_;
  std::mutex mutex_;
  std::uint64_t number_ = 0;  // of the stream by Farwrite; 0: none
  std::shared_ptr<PeerProcess> peer_;
  std::uint64_t server_ = 0;
  Position next_ = 0;
  std::map<Position, Request> under_way_;  // by Farwrite
  std::size_t by_grpc_ = 0;                // under way
  bool used_grpc_ = false;
  std::deque<Request> held_;
  bool sending_held_ = false;
};

}  // namespace farwrite::plugin
