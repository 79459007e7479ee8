#include "control/control_client.h"

#include <utility>

#include "base/remote_error.h"
#include "base/work_queue.h"
#include "tensorflow/core/platform/status.h"

namespace farwrite::plugin {

bool ControlClient::begin(const ControlCall& call, const google::protobuf::Message& request,
                          const std::function<bool()>& written) {
  const bool has_deadline = call.options != nullptr && call.options->GetTimeout() > 0;
  if (has_deadline || !may_be_sent(request)) return false;
  CallClient::Call begun;
  begun.peer = call.peer;
  begun.server = call.server;
  begun.method = call.method;
  begun.stream = call.stream;
  begun.position = call.position;
  if (call.options != nullptr) {
    begun.numbered = [this, options = call.options](CallClient::Number number) {
      // Called under a lock of the options, which the end of a call takes.
      options->SetCancelCallback([this, number] {
        WorkQueue::of_process().submit([this, number] {
          calls_.cancel(number, absl::CancelledError("Farwrite: the call was cancelled"));
        });
      });
    };
  }
  begun.done = [call](absl::Status status, const std::shared_ptr<const ArrivedCall>& answer) {
    if (status.ok() && !answer->parse(call.response)) {
      status = absl::InternalError("Farwrite: the answer of " + call.task +
                                   " to a control call cannot be parsed");
    }
    if (call.options != nullptr) call.options->ClearCancelCallback();
    // As stock treats a call that was cancelled: what it was cancelled for counts.
    if (absl::IsCancelled(status)) status = tsl::StatusGroup::MakeDerived(status);
    call.done(called_error(call.task, status));
  };
  if (calls_.begin(std::move(begun), CallBody::of(request), written)) return true;
  if (call.options != nullptr) call.options->ClearCancelCallback();
  return false;
}

}  // namespace farwrite::plugin
