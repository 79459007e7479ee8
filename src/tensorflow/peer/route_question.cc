#include "peer/route_question.h"

#include "base/record.h"
#include "google/protobuf/any.pb.h"

namespace farwrite::plugin {
namespace {

constexpr char kQuestionUrl[] = "type.googleapis.com/farwrite.RouteQuestion";
constexpr char kQuestionKey[] = "farwrite: route";

}  // namespace

template <typename Wire>
void RouteQuestion::fields(Wire& wire) {
  wire(server, step, collective, core::sized(task, SIZE_MAX));
}

void write_question(const RouteQuestion& question, tensorflow::RecvBufRequest* request) {
  request->set_buf_rendezvous_key(kQuestionKey);
  request->mutable_transport_options()->set_type_url(kQuestionUrl);
  request->mutable_transport_options()->set_value(to_record(question, 64));
}

bool is_question(const tensorflow::RecvBufRequest& request) {
  return request.transport_options().type_url() == kQuestionUrl;
}

absl::Status read_question(const tensorflow::RecvBufRequest& request, RouteQuestion* question) {
  const std::string value(request.transport_options().value());
  if (from_record(value, *question)) return absl::OkStatus();
  return absl::InvalidArgumentError("Farwrite: a peer's question about a route cannot be read");
}

void write_answer(RouteAnswer answer, tensorflow::RecvBufResponse* response) {
  response->mutable_transport_options()->set_type_url(kQuestionUrl);
  response->mutable_transport_options()->set_value(to_record(answer, 1));
}

absl::Status read_answer(const tensorflow::RecvBufResponse& response, RouteAnswer* answer) {
  const std::string value(response.transport_options().value());
  const bool whole = from_record(value, *answer);
  const bool known = *answer >= RouteAnswer::kWait && *answer <= RouteAnswer::kElsewhere;
  if (whole && known && response.transport_options().type_url() == kQuestionUrl) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("Farwrite: a peer's answer about a route cannot be read");
}

}  // namespace farwrite::plugin
