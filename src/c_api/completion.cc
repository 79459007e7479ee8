// The C ABI: operations on their way. NULL is one that has ended well.
#include "c_api/handles.h"

using farwrite::Completion;
using farwrite::Status;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;

namespace {

// Calls `done` once, by Completion::on_done() or on_settled(); now for NULL.
fw_status* tell_once(const fw_completion* completion,
                     void (Completion::*when)(std::function<void(const Status&)>) const,
                     fw_done done, void* context) {
  if (fw_status* const refused =
          refuse_null("wait for an operation", {{"done", done != nullptr}})) {
    return refused;
  }
  if (completion == nullptr) {
    done(context, nullptr);
  } else {
    const Completion waited = completion->completion;  // the handle may go with the callback
    (waited.*when)(farwrite::c_api::to_callback(done, context));
  }
  return nullptr;
}

}  // namespace

int fw_completion_done(const fw_completion* completion) {
  return completion == nullptr || completion->completion.done() ? 1 : 0;
}

int fw_completion_settled(const fw_completion* completion) {
  return completion == nullptr || completion->completion.settled() ? 1 : 0;
}

fw_status* fw_completion_wait(const fw_completion* completion, uint64_t timeout_ns) {
  return completion == nullptr ? nullptr
                               : to_c(completion->completion.wait(to_duration(timeout_ns)));
}

void fw_completion_cancel(fw_completion* completion) {
  if (completion != nullptr) completion->completion.cancel();
}

fw_status* fw_completion_on_done(fw_completion* completion, fw_done done, void* context) {
  return tell_once(completion, &Completion::on_done, done, context);
}

fw_status* fw_completion_on_settled(fw_completion* completion, fw_done done, void* context) {
  return tell_once(completion, &Completion::on_settled, done, context);
}

void fw_completion_free(fw_completion* completion) { delete completion; }
