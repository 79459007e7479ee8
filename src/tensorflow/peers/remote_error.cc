#include "peers/remote_error.h"

#include "absl/strings/match.h"

namespace farwrite::plugin {
namespace {

constexpr char kRemote[] = "GRPC error information from remote target ";

}  // namespace

absl::Status remote_error(const std::string& task, const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsAborted(status)) return status;
  if (absl::StrContains(status.message(), kRemote)) return status;
  return absl::Status(status.code(), std::string(status.message()) + "\nAdditional " + kRemote +
                                         task + " while exchanging tensors by Farwrite");
}

}  // namespace farwrite::plugin
