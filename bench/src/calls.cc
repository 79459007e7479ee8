#include "calls.h"

#include <utility>

#include "clock.h"
#include "pair.h"

namespace farwrite::bench {
namespace {

constexpr std::uint64_t kBytes = sizeof(std::uint64_t);

}  // namespace

Result<std::unique_ptr<Calls>> Calls::make() {
  std::unique_ptr<Calls> calls(new Calls);
  FARWRITE_RETURN_IF_ERROR(calls->open_memory());
  FARWRITE_RETURN_IF_ERROR(calls->open_tensors());
  Calls& own = *calls;
  const auto write = [&own] {
    return own.near_.write({&own.word_, kBytes}, own.target_, 0).wait(kTimeout);
  };
  const auto taken = [&own] { return own.far_.wait_notification(kTimeout).status(); };
  calls->rounds_ = {
      {"write", write},
      {"read",
       [&own] { return own.near_.read({&own.word_, kBytes}, own.outbox_, 0).wait(kTimeout); }},
      {"notify and try",
       [&own] {
         FARWRITE_RETURN_IF_ERROR(own.near_.notify(1).wait(kTimeout));
         return own.far_.try_notification().status();
       }},
      {"write and wait",
       [&own, taken] {
         const ByteView source(&own.word_, kBytes);
         FARWRITE_RETURN_IF_ERROR(
             own.near_.write_with_notify(source, own.target_, 0, 1).wait(kTimeout));
         return taken();
       }},
      {"send and wait",
       [&own, taken] {
         FARWRITE_RETURN_IF_ERROR(own.near_.send({&own.word_, kBytes}).wait(kTimeout));
         return taken();
       }},
      {"static tensor",
       [&own] { return own.move_tensor(own.static_sender_, own.static_receiver_); }},
      {"dynamic tensor",
       [&own] { return own.move_tensor(own.dynamic_sender_, own.dynamic_receiver_); }},
  };
  return calls;
}

std::vector<std::string> Calls::names() const {
  std::vector<std::string> names;
  for (const auto& [name, round] : rounds_) names.push_back(name);
  return names;
}

Result<double> Calls::seconds(const std::string& name, std::uint64_t times) {
  const auto found = rounds_.find(name);
  if (found == rounds_.end()) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "bench calls"},
                         "no call is named '" + name + "'", "use one of names()");
  }
  const Clock::time_point start = Clock::now();
  for (std::uint64_t i = 0; i < times; ++i) FARWRITE_RETURN_IF_ERROR(found->second());
  return seconds_since(start);
}

Status Calls::open_memory() {
  FARWRITE_RETURN_IF_ERROR(open_pair(left_, right_));
  FARWRITE_RETURN_IF_ERROR(connect(left_, right_, near_, far_));
  FARWRITE_RETURN_IF_ERROR(put(landing_, far_.allocate(kBytes)));
  FARWRITE_RETURN_IF_ERROR(put(source_, right_.allocate(kBytes)));
  FARWRITE_RETURN_IF_ERROR(far_.publish("landing", landing_));
  FARWRITE_RETURN_IF_ERROR(right_.publish("source", source_));
  FARWRITE_RETURN_IF_ERROR(put(target_, near_.lookup("landing", kTimeout)));
  return put(outbox_, near_.lookup("source", kTimeout));
}

Status Calls::open_tensors() {
  ReceiverOptions known;
  known.kind = EdgeKind::kStatic;
  known.spec = {"<u8", sizeof(std::uint64_t), {1}};
  FARWRITE_RETURN_IF_ERROR(put(static_receiver_, TensorReceiver::open(far_, "static", known)));
  FARWRITE_RETURN_IF_ERROR(put(dynamic_receiver_, TensorReceiver::open(far_, "dynamic", {})));
  FARWRITE_RETURN_IF_ERROR(
      put(static_sender_, TensorSender::open(left_, near_, "static", kTimeout)));
  return put(dynamic_sender_, TensorSender::open(left_, near_, "dynamic", kTimeout));
}

Status Calls::move_tensor(TensorSender& sender, TensorReceiver& receiver) {
  // The outcome of a send that is under way may need the receiver to take it.
  const TensorSpec spec{"<u8", sizeof(std::uint64_t), {1}};
  const Completion sent = sender.send(spec, {&word_, kBytes}, kTimeout);
  FARWRITE_RETURN_IF_ERROR(receiver.receive(kTimeout).status());
  return sent.done() ? sent.wait(kTimeout) : Status();
}

}  // namespace farwrite::bench
