#include "core/channel_end.h"

#include <string>
#include <string_view>
#include <utility>

#include "farwrite/internal/sentence.h"

namespace farwrite::core {

Status end_of(std::string_view operation, Status reason) {
  std::string_view rest = reason.message();
  if (operation.empty() || !rest.starts_with(kUseTheChannel)) return reason;
  rest.remove_prefix(kUseTheChannel.size());
  std::string sentence(operation);
  constexpr std::string_view kTo = " to ";
  if (rest.starts_with(kTo)) {
    rest.remove_prefix(kTo.size());
    sentence.append(" ").append(internal::towards(operation)).append(" ");
  }
  return Status(reason.code(), sentence.append(rest));
}

}  // namespace farwrite::core
