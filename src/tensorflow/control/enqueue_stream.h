// EnqueueStream: the requests of this process to one eager context of another task, in order.
//
// All go one way: over Farwrite if a channel leads to the task once the two have met, else over
// gRPC's stream. What was answered may not have been executed, and each way has a queue of its own
// at the other side, so a change of ways would change the order. As with a stream of gRPC's, an
// error ends what was sent after it, and the next request begins another stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "control/control_cluster.h"
#include "core/mutex.h"
#include "tensorflow/core/distributed_runtime/eager/eager_client.h"
#include "tensorflow/core/protobuf/eager_service.pb.h"

namespace farwrite::plugin {

// Thread-safe.
class EnqueueStream : public std::enable_shared_from_this<EnqueueStream> {
 public:
  // `stock` calls the same task over gRPC.
  EnqueueStream(std::shared_ptr<const ControlCluster> cluster, std::string task,
                tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient> stock)
      : cluster_(std::move(cluster)), task_(std::move(task)), stock_(std::move(stock)) {}
  ~EnqueueStream();

  // `response` is filled before `done`, which is called once, under no lock; `request` may go at
  // once.
  void send(const tensorflow::eager::EnqueueRequest& request,
            tensorflow::eager::EnqueueResponse* response, tensorflow::StatusCallback done);
  // Ends what was not sent over gRPC as cancelled, and what comes.
  void close();
  // Whether its way is gRPC's.
  bool by_grpc();

 private:
  // So many may be without an answer; more wait here, as they do with gRPC.
  static constexpr std::size_t kWindow = 128;

  enum class Carrier { kUndecided, kFarwrite, kGrpc };
  struct EnqueuedRequest {
    std::unique_ptr<const tensorflow::eager::EnqueueRequest> held;  // null: it is the caller's
    tensorflow::eager::EnqueueResponse* response = nullptr;
    tensorflow::StatusCallback done;
  };
  using Number = std::uint64_t;
  using Position = std::uint64_t;
  using Key = std::pair<Number, Position>;

  // For the code that has set posting_: posts what waits, and clears posting_ or leaves that to
  // another.
  void go_on();
  // The same once room has come back, after what Room::returns() said before.
  void go_on_with_room(std::uint64_t returns);
  void decide(const Callee& callee);
  // Whether a request may be posted now.
  bool may_post() const FW_REQUIRES(mutex_);
  // Releases the mutex meanwhile. False: later, and then the request is the first that waits.
  bool post(const tensorflow::eager::EnqueueRequest& request, EnqueuedRequest sent)
      FW_REQUIRES(mutex_);
  void answered(Key key, const absl::Status& status, tensorflow::eager::EnqueueResponse& response);
  // Ends the stream of this key, from there on, and what waits; of an earlier stream this request.
  // Returns what is over, for tell() without the lock. post() tells what it has not yet written.
  std::vector<EnqueuedRequest> end(Key from, const absl::Status& why) FW_REQUIRES(mutex_);
  // Without the lock: what `done` keeps goes as well.
  static void tell(EnqueuedRequest over, const absl::Status& status);
  static void tell(std::vector<EnqueuedRequest> over, const absl::Status& status);

  const std::shared_ptr<const ControlCluster> cluster_;
  const std::string task_;
  const tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient> stock_;
  core::Mutex mutex_{core::LockRank::kProgram, 2};
  Carrier way_ FW_GUARDED_BY(mutex_) = Carrier::kUndecided;
  Callee callee_ FW_GUARDED_BY(mutex_);
  Number number_ FW_GUARDED_BY(mutex_) = 0;        // of the stream over Farwrite; 0: none
  absl::Status ended_with_ FW_GUARDED_BY(mutex_);  // the stream before
  Position next_ FW_GUARDED_BY(mutex_) = 0;
  std::map<Key, EnqueuedRequest> under_way_ FW_GUARDED_BY(mutex_);  // over Farwrite
  std::deque<EnqueuedRequest> waiting_ FW_GUARDED_BY(mutex_);
  bool posting_ FW_GUARDED_BY(mutex_) = false;
  bool closed_ FW_GUARDED_BY(mutex_) = false;
  // Streams that have ended here: the peer is told before it gets the first request of another.
  std::vector<std::pair<std::shared_ptr<PeerProcess>, Number>> ended_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
