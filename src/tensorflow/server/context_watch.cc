#include "server/context_watch.h"

#include <string_view>
#include <utility>

#include "tensorflow/core/protobuf/eager_service.pb.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;
namespace interception = ::grpc::experimental;

constexpr std::string_view kMethod = "/tensorflow.eager.EagerService/CreateContext";

// Of one call.
class ContextInterceptor final : public interception::Interceptor {
 public:
  explicit ContextInterceptor(const ContextAnswered& answered) : answered_(answered) {}

  void Intercept(interception::InterceptorBatchMethods* methods) override {
    using Point = interception::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE)) {
      if (const void* const message = methods->GetRecvMessage()) {
        const auto* const request = static_cast<const tf::eager::CreateContextRequest*>(message);
        context_ = request->context_id();
        config_ = request->server_def().default_session_config();
        asked_ = true;
      }
    }
    if (asked_ && methods->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      answered_(context_, config_);
    }
    methods->Proceed();
  }

 private:
  const ContextAnswered& answered_;
  bool asked_ = false;
  std::uint64_t context_ = 0;
  tf::ConfigProto config_;
};

class WatchFactory final : public interception::ServerInterceptorFactoryInterface {
 public:
  explicit WatchFactory(ContextAnswered answered) : answered_(std::move(answered)) {}

  interception::Interceptor* CreateServerInterceptor(interception::ServerRpcInfo* info) override {
    const bool watched = info->method() != nullptr && info->method() == kMethod;
    return watched ? new ContextInterceptor(answered_) : nullptr;
  }

 private:
  const ContextAnswered answered_;
};

}  // namespace

std::unique_ptr<interception::ServerInterceptorFactoryInterface> context_watch(
    ContextAnswered answered) {
  return std::make_unique<WatchFactory>(std::move(answered));
}

}  // namespace farwrite::plugin
