#include "rpc_client.h"

#include <utility>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "reply_source.h"
#include "rpc_counters.h"
#include "tensor_encoding.h"

namespace farwrite::experiments {
namespace {

namespace tf = ::tensorflow;

// Of replies: some chunks under way.
constexpr std::uint64_t kClientRingBytes = std::uint64_t{4} << 20;

std::string frame_of(const RpcHead& head) {
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head));
}

// Bytes that can be read again and again.
class TextSource final : public tf::TensorResponse::Source {
 public:
  explicit TextSource(const std::string& text) : text_(text) {}
  google::protobuf::io::ZeroCopyInputStream* contents() override {
    stream_ = std::make_unique<google::protobuf::io::ArrayInputStream>(
        text_.data(), static_cast<int>(text_.size()));
    return stream_.get();
  }

 private:
  const std::string& text_;
  std::unique_ptr<google::protobuf::io::ArrayInputStream> stream_;
};

void count_copies(const tf::TensorResponse& response, std::uint64_t copies) {
  if (response.tensor().NumElements() > 0)
    RpcCounters::add(RpcCounters::of_process().copies, copies);
}

absl::Status unavailable(const Status& reason) {
  return absl::UnavailableError("rpc-over-fabric: " + reason.message());
}

}  // namespace

void RpcClient::receive(tf::CallOptions* options, const tf::RecvTensorRequest& request,
                        tf::TensorResponse* response, Done done) {
  const std::string body = request.SerializeAsString();
  RpcHead head;
  head.bytes = body.size();
  Call call{options, response, std::move(done)};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    head.id = ++last_id_;
  }
  // Before the call can end. What is cancelled before it is known here, TensorFlow cancels again.
  if (options != nullptr) {
    options->SetCancelCallback([self = shared_from_this(), id = head.id] { self->cancel(id); });
  }
  absl::Status failed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed = failed_;
    if (failed.ok()) calls_.emplace(head.id, std::move(call));
  }
  if (!failed.ok()) return finish(std::move(call), failed);
  RpcCounters::add(RpcCounters::of_process().requests);
  send(frame_of(head) + body);
}

void RpcClient::send(std::string frame) {
  std::shared_ptr<Link> link;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    link = link_;
    if (link == nullptr) {
      unsent_.push_back(std::move(frame));
      return;
    }
  }
  const auto owner = std::make_shared<const std::string>(std::move(frame));
  link->writer().write({{ByteView(owner->data(), owner->size()), owner}});
}

void RpcClient::run(const std::function<Result<Channel>()>& connect) {
  Status status = open(connect);
  while (status.ok()) status = read_reply();
  fail(status);
}

Status RpcClient::open(const std::function<Result<Channel>()>& connect) {
  Result<Channel> channel = connect();
  if (!channel.ok()) return channel.status();
  Result<std::shared_ptr<Link>> link = Link::open(*std::move(channel), kClientRingBytes, schedule_);
  if (!link.ok()) return link.status();
  std::vector<std::string> unsent;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    link_ = *std::move(link);
    unsent.swap(unsent_);
  }
  for (std::string& frame : unsent) send(std::move(frame));
  return Status();
}

Status RpcClient::read_reply() {
  RpcHead head;
  FARWRITE_RETURN_IF_ERROR(link_->read(&head, sizeof(head)));
  FARWRITE_RETURN_IF_ERROR(head.check_from_server(last_id(), link_->channel().peer_name()));
  begin_reading(head.id);
  const Status read = read_body(head);
  begin_reading(0);
  return read;
}

void RpcClient::begin_reading(std::uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reading_ = id;
  link_->hurry(false);
}

Status RpcClient::read_body(const RpcHead& head) {
  Call call;
  if (!take(head.id, &call)) return link_->skip(head.bytes);
  if (head.status == 0) return read_tensor(head.bytes, std::move(call));
  std::string message;
  const Status read = link_->append(&message, head.bytes);
  finish(std::move(call), read.ok()
                              ? absl::Status(static_cast<absl::StatusCode>(head.status), message)
                              : unavailable(read));
  return read;
}

Status RpcClient::read_tensor(std::uint64_t bytes, Call call) {
  RpcCounters::add(RpcCounters::of_process().bytes_received, bytes);
  Result<ByteView> first = link_->peek(bytes);
  if (first.ok() && begins_without_plain_bytes(std::to_integer<unsigned char>(*first->data))) {
    auto text = std::make_shared<std::string>();
    const Status read = link_->append(text.get(), bytes);
    if (read.ok()) {
      parse_later(std::move(text), std::move(call));
    } else {
      finish(std::move(call), unavailable(read));
    }
    return read;
  }
  ReplySource source(link_.get(), bytes);
  absl::Status parsed = call.response->ParseFrom(&source);
  count_copies(*call.response, 1);
  const Status read = source.finish();
  finish(std::move(call), read.ok() ? std::move(parsed) : unavailable(read));
  return read;
}

void RpcClient::parse_later(std::shared_ptr<std::string> bytes, Call call) {
  schedule_([bytes = std::move(bytes), call = std::move(call)] {
    TextSource source(*bytes);
    const absl::Status parsed = call.response->ParseFrom(&source);
    count_copies(*call.response, 2);
    if (call.options != nullptr) call.options->ClearCancelCallback();
    call.done(parsed);
  });
}

void RpcClient::cancel(std::uint64_t id) {
  Call call;
  if (!take(id, &call)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // It ends with its reply, or with the link where the peer stops in the middle of that.
    if (reading_ == id) link_->hurry(true);
    return;
  }
  RpcHead head;
  head.id = id;
  head.kind = RpcKind::kCancel;
  send(frame_of(head));
  finish(std::move(call), absl::CancelledError("rpc-over-fabric: RecvTensor was cancelled"));
}

std::uint64_t RpcClient::last_id() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_id_;
}

bool RpcClient::take(std::uint64_t id, Call* call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(id);
  if (found == calls_.end()) return false;
  *call = std::move(found->second);
  calls_.erase(found);
  return true;
}

void RpcClient::finish(Call call, absl::Status status) {
  // Elsewhere: kernels run in `done`, and a cancelling thread holds the lock of the options.
  schedule_([call = std::move(call), status = std::move(status)] {
    if (call.options != nullptr) call.options->ClearCancelCallback();
    call.done(status);
  });
}

void RpcClient::fail(const Status& reason) {
  std::map<std::uint64_t, Call> calls;
  const absl::Status failed = unavailable(reason);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = failed;
    calls.swap(calls_);
    unsent_.clear();
  }
  for (auto& entry : calls) finish(std::move(entry.second), failed);
}

}  // namespace farwrite::experiments
