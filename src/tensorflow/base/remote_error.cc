#include "base/remote_error.h"

#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farwrite::plugin {
namespace {

constexpr char kRemote[] = "GRPC error information from remote target ";

absl::Status add(const std::string& task, const char* how, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status told(status.code(),
                    absl::StrCat(status.message(), "\nAdditional ", kRemote, task, how));
  status.ForEachPayload(
      [&told](std::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

}  // namespace

absl::Status remote_error(const std::string& task, const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsAborted(status)) return status;
  if (absl::StrContains(status.message(), kRemote)) return status;
  return add(task, " while exchanging tensors over Farwrite", status);
}

absl::Status called_error(const std::string& task, const absl::Status& status) {
  return add(task, ", which was called over Farwrite", status);
}

}  // namespace farwrite::plugin
