// The verbs fabric of a build that found no headers of libibverbs and librdmacm.
#include "fabric/verbs.h"

namespace farwrite::fabric {
namespace {

Status not_built() {
  return Status::error(StatusCode::kUnavailable, {"use verbs"},
                       "this build was made without libibverbs-dev and librdmacm-dev",
                       "install them and build again, or install Farwrite's wheel");
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_verbs_fabric(core::EventLoop& /*loop*/,
                                                  const DeviceOptions& /*options*/) {
  return not_built();
}

Result<std::vector<std::string>> describe_verbs(const VerbsOptions& /*options*/) {
  return not_built();
}

}  // namespace farwrite::fabric
