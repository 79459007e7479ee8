#include "peer/route_question.h"

#include "base/record.h"
#include "google/protobuf/any.pb.h"

namespace farwrite::plugin {
namespace {

constexpr char kQuestionUrl[] = "type.googleapis.com/farwrite.RouteQuestion";
constexpr char kQuestionKey[] = "farwrite: route";

}  // namespace

void write_question(const RouteQuestion& question, tensorflow::RecvBufRequest* request) {
  RecordWriter record(64);
  record.number(question.server);
  record.number(question.step);
  record.number(static_cast<std::uint8_t>(question.collective ? 1 : 0));
  record.text(question.task);
  request->set_buf_rendezvous_key(kQuestionKey);
  request->mutable_transport_options()->set_type_url(kQuestionUrl);
  request->mutable_transport_options()->set_value(record.bytes());
}

bool is_question(const tensorflow::RecvBufRequest& request) {
  return request.transport_options().type_url() == kQuestionUrl;
}

absl::Status read_question(const tensorflow::RecvBufRequest& request, RouteQuestion* question) {
  const std::string value(request.transport_options().value());
  RecordReader record(value);
  question->server = record.number<std::uint64_t>();
  question->step = record.number<std::int64_t>();
  question->collective = record.number<std::uint8_t>() != 0;
  question->task = std::string(record.text());
  if (record.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("Farwrite: a peer's question about a route cannot be read");
}

void write_answer(RouteAnswer answer, tensorflow::RecvBufResponse* response) {
  RecordWriter record(1);
  record.number(answer);
  response->mutable_transport_options()->set_type_url(kQuestionUrl);
  response->mutable_transport_options()->set_value(record.bytes());
}

absl::Status read_answer(const tensorflow::RecvBufResponse& response, RouteAnswer* answer) {
  const std::string value(response.transport_options().value());
  RecordReader record(value);
  *answer = record.number<RouteAnswer>();
  const bool known = *answer >= RouteAnswer::kWait && *answer <= RouteAnswer::kElsewhere;
  if (record.ok() && known && response.transport_options().type_url() == kQuestionUrl) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("Farwrite: a peer's answer about a route cannot be read");
}

}  // namespace farwrite::plugin
