#include "box/settled.h"

#include <future>
#include <memory>
#include <utility>

#include "farwrite/internal/late.h"

namespace farwrite::box {

Status wait_until_settled(const Completion& completion) {
  const auto outcome = std::make_shared<std::promise<Status>>();
  completion.on_settled([outcome](const Status& status) { outcome->set_value(status); });
  return outcome->get_future().get();
}

Status wait_until_done(const Completion& completion, const core::Deadline& deadline,
                       std::shared_ptr<const void> owner, const Channel& channel) {
  if (owner != nullptr) completion.on_settled([owner = std::move(owner)](const Status&) {});
  Status outcome = completion.wait(deadline.remaining());
  if (completion.done()) return outcome;
  return internal::late({.operation = "read", .peer = channel.peer_name()}, channel.peer_state(),
                        "the other side has not sent the bytes in time",
                        "look whether it runs, or allow more time");
}

}  // namespace farwrite::box
