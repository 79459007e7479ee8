// Questions about routes, which any process that reaches a worker's gRPC port may ask, and the
// answers.
#include <string>
#include <string_view>

#include "peer/route_question.h"
#include "peer_text.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using plugin::RouteAnswer;
using plugin::RouteQuestion;
using tensorflow::RecvBufRequest;
using tensorflow::RecvBufResponse;

// The record in its place in a request, or in a response. Around it is a protobuf, which gRPC
// parses.
enum Kind : std::uint8_t { kQuestion, kAnswer, kKinds };

void require_refusal(const absl::Status& status) {
  require(absl::IsInvalidArgument(status), "what cannot be read is an invalid argument");
  require(!status.message().empty(), "a refusal says why");
}

void run_question(std::string_view bytes) {
  RecvBufRequest request;
  plugin::write_question({}, &request);
  request.mutable_transport_options()->set_value(std::string(bytes));
  RouteQuestion question;
  const absl::Status read = plugin::read_question(request, &question);
  if (!read.ok()) return require_refusal(read);
  require(question.task.size() <= bytes.size(), "a question has no more bytes than came");
  RecvBufRequest written;
  plugin::write_question(question, &written);
  require(plugin::is_question(written), "we take our own question for one");
  RouteQuestion again;
  require(plugin::read_question(written, &again).ok(), "what we write can be read");
  require(question.task == again.task && question.server == again.server &&
              question.step == again.step && question.collective == again.collective,
          "a question is the same on its way through us");
}

void run_answer(std::string_view bytes) {
  RecvBufResponse response;
  plugin::write_answer(RouteAnswer::kWait, &response);
  response.mutable_transport_options()->set_value(std::string(bytes));
  RouteAnswer answer{};
  const absl::Status read = plugin::read_answer(response, &answer);
  if (!read.ok()) return require_refusal(read);
  require(answer == RouteAnswer::kWait || answer == RouteAnswer::kKeeps ||
              answer == RouteAnswer::kElsewhere,
          "an answer is one of three");
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t kind = script.u8() % kKinds;
  const std::string_view bytes = text_of(script.rest());
  if (kind == kAnswer) return run_answer(bytes);
  run_question(bytes);
}

Bytes seed(Kind kind, const std::string& bytes) {
  return concatenated({{static_cast<std::byte>(kind)}, bytes_of(bytes)});
}

Seeds seeds() {
  RecvBufRequest question;
  plugin::write_question({"/job:worker/replica:0/task:1", 0x1111, 7, true}, &question);
  RecvBufResponse answer;
  plugin::write_answer(RouteAnswer::kElsewhere, &answer);
  return {{"question", seed(kQuestion, std::string(question.transport_options().value()))},
          {"answer", seed(kAnswer, std::string(answer.transport_options().value()))}};
}

[[maybe_unused]] const bool kAdded = add_target({"route_question", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
