#include "session/step_service.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/work_queue.h"
#include "core/mutex.h"
#include "session/step_body.h"
#include "stats/stats.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/protobuf/master.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

// One step while its master runs it.
class StepService::ServedStep final : public ServedCall {
 public:
  ServedStep(std::shared_ptr<PeerProcess> peer, const CallMessage& message, ServedMaster by)
      : ServedCall(std::move(peer), message), served(by) {}

  ArrivedCall arrived;
  const ServedMaster served;
  std::atomic<bool> cancelled{false};
  tf::CallOptions options;
  tf::InMemoryRunStepRequest request;  // holds views of what the client lent
  tf::InMemoryRunStepResponse response;

  // Even before the master knows of it.
  void cancel() override {
    cancelled.store(true);
    options.StartCancel();
  }

  // Makes the request of what has come.
  absl::Status read() {
    StepTable table;
    tf::RunStepRequest head;
    if (!decode(arrived.head(), arrived.message().body_bytes, &table) ||
        !head.ParseFromArray(table.head.data(), static_cast<int>(table.head.size()))) {
      return absl::InternalError("Farwrite: a step that a client asks for cannot be parsed");
    }
    std::vector<NamedTensor> feeds;
    const absl::Status made = viewed_tensors(arrived, table, &feeds);
    if (!made.ok()) return made;
    request.set_session_handle(head.session_handle());
    request.set_partial_run_handle(head.partial_run_handle());
    for (const NamedTensor& feed : feeds) request.add_feed(feed.name, feed.tensor);
    for (const std::string& fetch : head.fetch()) request.add_fetch(fetch);
    for (const std::string& target : head.target()) request.add_target(target);
    *request.mutable_options() = head.options();
    request.set_store_errors_in_response_body(head.store_errors_in_response_body());
    const std::int64_t timeout = head.options().timeout_in_ms();
    options.SetTimeout(timeout > 0 ? timeout : served.timeout_ms);
    return absl::OkStatus();
  }

  // Makes the answer of what the step gave.
  absl::Status pack(PackedStep* packed) {
    tf::RunStepResponse head;
    head.mutable_metadata()->Swap(response.mutable_metadata());
    if (head.ByteSizeLong() > INT32_MAX) {
      return absl::ResourceExhaustedError("Farwrite: the metadata of a step has more than 2 GB");
    }
    StepBody body;
    body.head = head.SerializeAsString();
    for (std::size_t i = 0; i < response.num_tensors(); ++i) {
      NamedTensor& fetched = body.tensors.emplace_back();
      fetched.name = response.tensor_name(i);
      const absl::Status status = response.TensorValue(i, &fetched.tensor);
      if (!status.ok()) return status;
    }
    return PackedStep::pack(std::move(body), packed);
  }
};

void StepService::add(std::uint64_t server, tf::Master* master, std::int64_t timeout_ms) {
  const core::Lock lock(mutex_);
  servers_[server] = {master, timeout_ms};
}

void StepService::remove(std::uint64_t server) {
  const core::Lock lock(mutex_);
  servers_.erase(server);
}

std::shared_ptr<ServedCall> StepService::make(const std::shared_ptr<PeerProcess>& peer,
                                              const CallMessage& message) {
  const core::Lock lock(mutex_);
  const auto server = servers_.find(message.server);
  return std::make_shared<ServedStep>(peer, message,
                                      server == servers_.end() ? ServedMaster() : server->second);
}

absl::Status StepService::begin(const std::shared_ptr<ServedCall>& made, const CallMessage& message,
                                RemoteBytes lent) {
  const auto step = std::static_pointer_cast<ServedStep>(made);
  count(stats().session_steps_served);
  step->arrived = ArrivedCall(message, std::move(lent));
  const Schedule schedule = [](std::function<void()> work) {
    WorkQueue::of_process().submit(std::move(work));
  };
  const auto see = [this, step, schedule] {
    step->arrived.see(
        schedule, [step] { return step->cancelled.load(); },
        [this, step](const absl::Status& status) { run(step, status); });
  };
  if (step->arrived.is_lent()) {
    see();
  } else {
    schedule(see);
  }
  return absl::OkStatus();
}

void StepService::run(const StepRef& step, const absl::Status& seen) {
  if (step->served.master == nullptr) {
    answer(step, absl::UnavailableError("Farwrite: the server that is called has been replaced"));
    return;
  }
  const absl::Status read = seen.ok() ? step->read() : seen;
  if (!read.ok() || step->cancelled.load()) {
    answer(step, read.ok()
                     ? absl::CancelledError("Farwrite: the step was cancelled before it began")
                     : read);
    return;
  }
  step->served.master->RunStep(&step->options, &step->request, &step->response,
                               [this, step](const absl::Status& status) { answer(step, status); });
  // Maybe while it began, before the master could receive it.
  if (step->cancelled.load()) step->cancel();
}

void StepService::answer(const StepRef& step, const absl::Status& status) {
  auto packed = std::make_shared<PackedStep>();
  absl::Status answered = status.ok() ? step->pack(packed.get()) : status;
  if (!status.ok() && step->request.store_errors_in_response_body()) {
    // As stock's service stores them: its response has no room for payloads.
    answered = absl::Status(status.code(), status.message());
  }
  calls_.answer(*step, answered.ok(),
                answered.ok() ? PackedStep::body_of(std::move(packed)) : CallBody::of(answered));
}

}  // namespace farwrite::plugin
