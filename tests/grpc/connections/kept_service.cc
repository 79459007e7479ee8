#include <atomic>

#include "kept_messages.h"

namespace farwrite::connections {
namespace {

Batch batch(const grpc::GenericCallbackServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return Batch::decode({found->second.data(), found->second.size()});
}

// Ends when it has sent and received everything.
class ServerEnd final : public Exchange<grpc::ServerGenericBidiReactor> {
 public:
  ServerEnd(const Batch& sends, const Batch& receives) : Exchange(sends, receives) {
    read();
    write();
  }

 private:
  void sent_all() override { end_behind_both(); }
  void received_all() override { end_behind_both(); }
  void end_behind_both() {
    if (ends_.fetch_add(1) == 0) return;
    const std::string fault = kept.check();
    Finish(fault.empty() ? grpc::Status::OK : grpc::Status(grpc::StatusCode::DATA_LOSS, fault));
  }
  void OnDone() override { delete this; }

  std::atomic<int> ends_{0};
};

}  // namespace

grpc::ServerGenericBidiReactor* KeptMessagesService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  if (context->method() != kExchangeMethod) return CallbackGenericService::CreateReactor(context);
  return new ServerEnd(batch(*context, kDownKey), batch(*context, kUpKey));
}

}  // namespace farwrite::connections
