// The sessions of targets "grpc+farwrite://host:port": TensorFlow's own client session, with a
// master whose steps go over Farwrite. TensorFlow's factory takes "grpc://" only, and this one
// nothing else than its own prefix.
#include "tensorflow/core/common_runtime/session_factory.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/abi.h"
#include "base/options.h"
#include "base/own_address.h"
#include "server/runtime.h"
#include "session/grpc_session.h"
#include "session/master_link.h"
#include "session/session_master.h"
#include "session/session_target.h"
#include "tensorflow/core/distributed_runtime/local_master.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/public/session_options.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

std::string address_of(const tf::SessionOptions& options) {
  return options.target.substr(sizeof(kSessionTarget) - 1);
}

tf::SessionOptions stock_options(const tf::SessionOptions& options) {
  tf::SessionOptions stock = options;
  stock.target = kStockTarget + address_of(options);
  return stock;
}

// Whether the master is in this process, and is called without any transport.
bool is_local(const tf::SessionOptions& stock) {
  return !stock.config.rpc_options().use_rpc_for_inprocess_master() &&
         tf::LocalMaster::Lookup(stock.target) != nullptr;
}

// kInvalidArgument: one of the plug-in's settings cannot be used.
absl::Status link_to(const std::string& address, const tf::RPCOptions& options, MasterLink** link) {
  Runtime* runtime = nullptr;
  const std::string own_name =
      std::string(MasterLink::kClient) + ", process " + std::to_string(getpid());
  const absl::Status opened = Runtime::open(host_towards(address), own_name, &runtime);
  if (opened.ok())
    *link = MasterLink::to(address, options, runtime->peers(), runtime->step_client());
  return opened;
}

class FarwriteSessionFactory final : public tf::SessionFactory {
 public:
  bool AcceptsOptions(const tf::SessionOptions& options) override {
    return absl::StartsWith(options.target, kSessionTarget);
  }

  absl::Status NewSession(const tf::SessionOptions& options, tf::Session** out_session) override {
    const tf::SessionOptions stock = stock_options(options);
    tf::Session* made = nullptr;
    absl::Status status = tf::NewSession(stock, &made);
    if (!status.ok()) return status;
    std::unique_ptr<tf::Session> session(made);
    if (!is_local(stock)) status = lead_by_farwrite(options, session.get());
    if (status.ok()) *out_session = session.release();
    return status;
  }

  absl::Status Reset(const tf::SessionOptions& options,
                     const std::vector<std::string>& containers) override {
    return tf::Reset(stock_options(options), containers);
  }

 private:
  static absl::Status lead_by_farwrite(const tf::SessionOptions& options, tf::Session* session) {
    auto* const client = dynamic_cast<tf::GrpcSession*>(session);
    if (client == nullptr) {
      return absl::InternalError("Farwrite: TensorFlow's session for " + options.target +
                                 " is not its client session");
    }
    const std::string address = address_of(options);
    const tf::RPCOptions& rpc_options = options.config.rpc_options();
    tsl::SharedGrpcChannelPtr channel;
    absl::Status status = tf::NewHostPortGrpcChannel(address, &rpc_options, &channel);
    if (!status.ok()) return status;
    MasterLink* link = nullptr;
    std::string reason = "FARWRITE_TF_CONTROL is off";
    if (plugin::options().control) {
      status = link_to(address, rpc_options, &link);
      if (absl::IsInvalidArgument(status)) return status;  // a setting
      reason = std::string(status.message());
    }
    std::unique_ptr<tf::MasterInterface> stock(tf::NewGrpcMaster(channel));
    client->SetRemoteMaster(
        std::make_unique<SessionMaster>(std::move(stock), options.target, link, reason));
    return absl::OkStatus();
  }
};

const bool session_registered = [] {
  if (!check_abi().ok()) return false;  // plugin.cc says why
  tf::SessionFactory::Register("FARWRITE_SESSION", new FarwriteSessionFactory);
  return true;
}();

}  // namespace
}  // namespace farwrite::plugin
