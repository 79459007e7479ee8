#include "stats/grpc_tally.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>

#include "grpcpp/support/server_interceptor.h"
#include "stats/stats.h"
#include "tensorflow/core/protobuf/eager_service.pb.h"
#include "tensorflow/core/protobuf/master.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;
namespace interception = ::grpc::experimental;

void count_in(const tf::TensorProto& tensor) {
  count(stats().grpc_feeds);
  count(stats().grpc_feed_bytes, tensor.ByteSizeLong());
}

void count_inputs(const tf::eager::Operation& operation) {
  for (const auto& input : operation.op_inputs()) {
    if (!input.has_tensor()) continue;
    count(stats().grpc_eager_inputs);
    count(stats().grpc_eager_input_bytes, input.tensor().ByteSizeLong());
  }
}

// A method, and how to read its request. Its response is serialized before an interceptor sees it,
// so what was asked for is counted, and not how large it was.
struct TalliedMethod {
  std::string_view name;
  std::atomic<std::uint64_t> Stats::* calls;
  void (*received)(const void* message) = [](const void*) {};
};

void run_step_received(const void* message) {
  const auto* const request = static_cast<const tf::RunStepRequest*>(message);
  for (const auto& feed : request->feed()) count_in(feed.tensor());
  count(stats().grpc_fetches, static_cast<std::uint64_t>(request->fetch_size()));
}
void run_graph_received(const void* message) {
  const auto* const request = static_cast<const tf::RunGraphRequest*>(message);
  for (const auto& fed : request->send()) count_in(fed.tensor());
  count(stats().grpc_fetches, static_cast<std::uint64_t>(request->recv_key_size()));
}
void enqueue_received(const void* message) {
  for (const auto& item : static_cast<const tf::eager::EnqueueRequest*>(message)->queue()) {
    if (item.has_operation()) count_inputs(item.operation());
    for (const auto& tensor : item.send_tensor().tensors()) {
      count(stats().grpc_eager_inputs);
      count(stats().grpc_eager_input_bytes, tensor.ByteSizeLong());
    }
  }
}
void component_received(const void* message) {
  const auto* const request = static_cast<const tf::eager::RunComponentFunctionRequest*>(message);
  count_inputs(request->operation());
}

constexpr TalliedMethod kMethods[] = {
    {"/tensorflow.MasterService/RunStep", &Stats::grpc_run_step_calls, run_step_received},
    {"/tensorflow.WorkerService/RegisterGraph", &Stats::grpc_register_graph_calls},
    {"/tensorflow.WorkerService/DeregisterGraph", &Stats::grpc_register_graph_calls},
    {"/tensorflow.WorkerService/RunGraph", &Stats::grpc_run_graph_calls, run_graph_received},
    {"/tensorflow.WorkerService/CleanupGraph", &Stats::grpc_cleanup_graph_calls},
    {"/tensorflow.eager.EagerService/Enqueue", &Stats::grpc_enqueue_calls, enqueue_received},
    {"/tensorflow.eager.EagerService/StreamingEnqueue", &Stats::grpc_enqueue_calls,
     enqueue_received},
    {"/tensorflow.eager.EagerService/RunComponentFunction",
     &Stats::grpc_run_component_function_calls, component_received},
    // Counted where they are answered, because of the bytes.
    {"/tensorflow.WorkerService/RecvTensor", nullptr},
    {"/tensorflow.WorkerService/RecvBuf", nullptr},
};
constexpr TalliedMethod kOther{"", &Stats::grpc_other_calls};

class Tally final : public interception::Interceptor {
 public:
  explicit Tally(const TalliedMethod& method) : method_(method) {}

  void Intercept(interception::InterceptorBatchMethods* methods) override {
    using Point = interception::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE)) {
      if (const void* const message = methods->GetRecvMessage()) {
        count(stats().*method_.calls);
        method_.received(message);
      }
    }
    methods->Proceed();
  }

 private:
  const TalliedMethod& method_;
};

class TallyFactory final : public interception::ServerInterceptorFactoryInterface {
 public:
  interception::Interceptor* CreateServerInterceptor(interception::ServerRpcInfo* info) override {
    if (info->method() == nullptr) return nullptr;
    const auto* const found =
        std::find_if(std::begin(kMethods), std::end(kMethods),
                     [info](const TalliedMethod& method) { return method.name == info->method(); });
    const TalliedMethod& method = found == std::end(kMethods) ? kOther : *found;
    return method.calls == nullptr ? nullptr : new Tally(method);
  }
};

}  // namespace

std::unique_ptr<interception::ServerInterceptorFactoryInterface> grpc_tally() {
  return std::make_unique<TallyFactory>();
}

}  // namespace farwrite::plugin
