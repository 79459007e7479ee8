#include "box/settled.h"

#include <future>
#include <memory>
#include <utility>

namespace farwrite::box {

Status wait_until_settled(const Completion& completion) {
  const auto outcome = std::make_shared<std::promise<Status>>();
  completion.on_settled([outcome](const Status& status) { outcome->set_value(status); });
  return outcome->get_future().get();
}

Status wait_until_done(const Completion& completion, const core::Deadline& deadline,
                       std::shared_ptr<const void> owner, std::string_view peer) {
  completion.on_settled([owner = std::move(owner)](const Status&) {});
  Status outcome = completion.wait(deadline.remaining());
  if (completion.done()) return outcome;
  return Status::error(StatusCode::kDeadlineExceeded, {.operation = "read", .peer = peer},
                       "the other side has not sent the bytes in time",
                       "look whether it runs, or allow more time");
}

}  // namespace farwrite::box
