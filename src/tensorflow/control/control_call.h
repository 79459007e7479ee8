// ControlCall: one control call of a peer while this process works on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "call/call_service.h"
#include "google/protobuf/message.h"
#include "peer/peer_process.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/eager/eager_service_impl.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_worker_service.h"

namespace farwrite::plugin {

// What a server answers calls with: the objects that gRPC calls, too. Null: there is no such
// server.
struct ControlledServer {
  tensorflow::GrpcWorker* worker = nullptr;
  tensorflow::eager::EagerServiceImpl* eager = nullptr;
};

// Thread-safe, except that parse() comes first.
class ControlCall final : public ServedCall {
 public:
  ControlCall(std::shared_ptr<PeerProcess> peer, const CallMessage& message,
              ControlledServer server)
      : ServedCall(std::move(peer), message), server_(server) {}

  // Whether to begin it takes long: it compiles a graph, or waits for what was begun before.
  bool may_block() const {
    return method() != Method::kRunGraph && method() != Method::kCleanupGraph &&
           method() != Method::kDeregisterGraph;
  }

  // An error if `status` is one, or what has come is no request of this method.
  absl::Status parse(const absl::Status& status, const ArrivedCall& arrived);
  // `done` is called once, maybe before begin() returns; it must keep the call, and so
  // must the caller until begin() returns.
  void begin(tensorflow::StatusCallback done);
  // Executes an Enqueue as one of a stream; `executor` is the stream's number in this process.
  absl::Status enqueue(std::uint64_t executor);

  // Even before begin(), which then fails.
  void cancel() override;
  bool cancelled() const { return cancelled_.load(); }
  const google::protobuf::Message& response() const { return *response_; }
  // An error if the response is too large to be sent.
  absl::Status check_response() const;

 private:
  bool parse(const ArrivedCall& arrived);
  template <typename Request, typename Response>
  bool make(const ArrivedCall& arrived);
  // Of make()'s types.
  template <typename Request>
  const Request* request() const {
    return static_cast<const Request*>(request_.get());
  }
  template <typename Response>
  Response* response() {
    return static_cast<Response*>(response_.get());
  }

  const ControlledServer server_;
  tensorflow::CallOptions options_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<google::protobuf::Message> request_, response_;
  std::unique_ptr<tensorflow::ProtoRunGraphRequest> run_request_;
  std::unique_ptr<tensorflow::NonOwnedProtoRunGraphResponse> run_response_;
};

}  // namespace farwrite::plugin
