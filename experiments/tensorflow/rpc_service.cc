#include "rpc_service.h"

#include <string_view>
#include <utility>
#include <vector>

#include "rpc_counters.h"
#include "tensor_encoding.h"
#include "tensorflow/core/framework/types.h"

namespace farwrite::experiments {
namespace {

namespace tf = ::tensorflow;

// Of requests, which are short.
constexpr std::uint64_t kServiceRingBytes = std::uint64_t{256} << 10;

Piece piece_of(RpcHead head, const std::string& body) {
  auto frame = std::make_shared<std::string>(reinterpret_cast<const char*>(&head), sizeof(head));
  *frame += body;
  return {ByteView(frame->data(), frame->size()), frame};
}

}  // namespace

Status RpcService::run(Channel channel) {
  Result<std::shared_ptr<Link>> link = Link::open(std::move(channel), kServiceRingBytes, schedule_);
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  Status status;
  while (status.ok()) status = read_request();
  (void)link_->channel().close();  // or a client whose request was refused would wait
  return status;
}

Status RpcService::read_request() {
  RpcHead head;
  FARWRITE_RETURN_IF_ERROR(link_->read(&head, sizeof(head)));
  const std::string& peer = link_->channel().peer_name();
  FARWRITE_RETURN_IF_ERROR(head.check_from_client(peer));
  if (head.kind == RpcKind::kCancel) {
    cancel(head.id);
    return Status();
  }
  std::string body;
  FARWRITE_RETURN_IF_ERROR(link_->append(&body, head.bytes));
  const auto request = std::make_shared<Request>();
  bool taken = request->message.ParseFromString(body);
  if (taken) {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken = requests_.emplace(head.id, request).second;
  }
  if (!taken) {
    return Status::error(StatusCode::kProtocolError, {"receive a request", peer},
                         "it is no RecvTensorRequest, or has the id of another one",
                         "run the same release in all tasks");
  }
  find_(&request->options, request->message,
        [self = shared_from_this(), request, id = head.id](const absl::Status& status,
                                                           const tf::Tensor& value, bool is_dead) {
          self->reply(id, status, value, is_dead);
        });
  return Status();
}

void RpcService::cancel(std::uint64_t id) {
  std::shared_ptr<Request> request;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = requests_.find(id);
    if (found == requests_.end()) return;
    request = found->second;
  }
  request->options.StartCancel();
}

void RpcService::reply(std::uint64_t id, const absl::Status& status, const tf::Tensor& value,
                       bool is_dead) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.erase(id);
  }
  if (!status.ok()) return send_status(id, status);
  if (tf::DataTypeCanUseMemcpy(value.dtype()) && value.TotalBytes() <= RingWriter::kBriefBytes) {
    return send_tensor(id, value, is_dead);
  }
  // Encoded and copied into the ring by a thread that nothing waits for.
  schedule_(
      [self = shared_from_this(), id, value, is_dead] { self->send_tensor(id, value, is_dead); });
}

void RpcService::send_tensor(std::uint64_t id, const tf::Tensor& value, bool is_dead) {
  EncodedTensor encoded;
  const absl::Status status = encode_tensor(is_dead, value, &encoded);
  if (!status.ok()) return send_status(id, status);
  RpcHead head;
  head.kind = RpcKind::kReply;
  head.id = id;
  head.bytes = encoded.head.size();
  std::vector<Piece> pieces = {Piece()};
  // Into the encoding; and, over shared memory, into the ring, which other fabrics do.
  std::uint64_t copies = link_->channel().maps_peer_memory() ? 1 : 0;
  if (encoded.content_follows) {
    const auto content = std::make_shared<const tf::Tensor>(std::move(encoded.content));
    const std::string_view bytes = content->tensor_data();
    head.bytes += bytes.size();
    pieces.push_back({ByteView(bytes.data(), bytes.size()), content});
  } else {
    ++copies;
  }
  pieces.front() = piece_of(head, encoded.head);
  RpcCounters& counters = RpcCounters::of_process();
  if (value.NumElements() > 0) RpcCounters::add(counters.copies, copies);
  RpcCounters::add(counters.bytes_sent, head.bytes);
  RpcCounters::add(counters.served);
  if (head.bytes <= RingWriter::kBriefBytes) return link_->writer().write(std::move(pieces));
  link_->writer().write_at_length(std::move(pieces));
}

void RpcService::send_status(std::uint64_t id, const absl::Status& status) {
  const std::string message(status.message().substr(0, RpcHead::kMostMessageBytes));
  RpcHead head;
  head.kind = RpcKind::kReply;
  head.id = id;
  head.bytes = message.size();
  head.status = static_cast<std::int32_t>(status.code());
  link_->writer().write({piece_of(head, message)});
}

}  // namespace farwrite::experiments
