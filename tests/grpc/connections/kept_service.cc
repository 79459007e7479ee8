#include <atomic>
#include <utility>

#include "kept_messages.h"

namespace farwrite::connections {
namespace {

std::string value(const grpc::GenericCallbackServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

// Ends when it has sent and received everything.
class ServerEnd final : public Exchange<grpc::ServerGenericBidiReactor> {
 public:
  ServerEnd(const Batch& sends, const Batch& receives, KeptMessagesService& service, size_t keeps)
      : Exchange(sends, receives), service_(service), keeps_(keeps) {
    read();
    write();
  }

 private:
  void sent_all() override { end_behind_both(); }
  void received_all() override { end_behind_both(); }
  void end_behind_both() {
    if (ends_.fetch_add(1) == 0) return;
    std::string fault = kept.check();
    if (fault.empty() && keeps_ > 0) fault = service_.changed();
    Finish(fault.empty() ? grpc::Status::OK : grpc::Status(grpc::StatusCode::DATA_LOSS, fault));
  }
  void OnDone() override {
    if (keeps_ > 0) service_.keep(std::move(kept), keeps_);
    delete this;
  }

  KeptMessagesService& service_;
  const size_t keeps_;
  std::atomic<int> ends_{0};
};

}  // namespace

void KeptMessagesService::keep(KeptMessages messages, size_t calls) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.push_back(std::move(messages));
  while (kept_.size() > calls) {
    faults_ += kept_.front().changed();
    kept_.pop_front();
  }
}

std::string KeptMessagesService::changed() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string found = faults_;
  for (const KeptMessages& messages : kept_) found += messages.changed();
  return found.empty() ? "" : "of an earlier call: " + found;
}

grpc::ServerGenericBidiReactor* KeptMessagesService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  if (context->method() != kExchangeMethod) return CallbackGenericService::CreateReactor(context);
  const Batch up = Batch::decode(value(*context, kUpKey));
  const std::string keeps = value(*context, kKeepKey);
  if (!keeps.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!came_.insert(up.seed).second) faults_ += "call " + std::to_string(up.seed) + " came twice";
  }
  return new ServerEnd(Batch::decode(value(*context, kDownKey)), up, *this,
                       keeps.empty() ? 0 : std::stoul(keeps));
}

}  // namespace farwrite::connections
