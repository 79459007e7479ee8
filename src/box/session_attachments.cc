// What a client has attached, and what it makes.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "box/hosted_segment.h"
#include "box/messages.h"
#include "box/segment_directory.h"
#include "box/server_state.h"
#include "box/session.h"
#include "core/with_memory.h"

namespace farwrite::box {

void Session::create(const ReceivedRequest& received) {
  SegmentSpec spec = received.request.spec;
  if (received.lent.valid()) {
    const Result<std::vector<std::byte>> text = copy_lent(received.lent, kMaxDescription);
    if (!text.ok()) return refuse(received.request.id, text.status());
    spec.description.assign(reinterpret_cast<const char*>(text.value().data()),
                            text.value().size());
  } else {
    spec.description.assign(reinterpret_cast<const char*>(received.request.bytes.data()),
                            received.request.bytes.size());
  }
  const Result<std::shared_ptr<HostedSegment>> made =
      server_.table().create(spec, received.request.creation);
  if (attach(received.request.id, made) || !made.ok()) return;
  // It was made for this client, which was refused. A client that waited for the name may have it.
  const bool is_new = received.request.creation == Creation::kExclusive;
  if (is_new && server_.describe(*made.value()).attached == 0) {
    static_cast<void>(server_.table().free(made.value()));
  }
}

bool Session::attach(std::uint64_t request, const Result<std::shared_ptr<HostedSegment>>& found) {
  if (!found.ok()) {
    refuse(request, found.status());
    return false;
  }
  const std::shared_ptr<HostedSegment>& segment = found.value();
  bool left = false;
  bool first = false;
  {
    const core::Lock lock(mutex_);
    left = left_;
    if (!left) {
      ClientAttachment& attachment = attachments_[segment->key()];
      attachment.segment = segment;
      first = attachment.times++ == 0;
    }
  }
  if (left) {
    server_.table().detach(segment);
    return false;
  }
  const bool told = answer_attached(request, *segment);
  if (!told) detach(segment->key());
  if (!told || !first) return told;
  const std::uint64_t news =
      segment->wait({.version = ~std::uint64_t{0}},
                    [weak = weak_from_this(), key = segment->key()](const Result<VersionId>&) {
                      if (const auto session = weak.lock()) session->reply({.id = 0, .key = key});
                    });
  const core::Lock lock(mutex_);
  const auto attachment = attachments_.find(segment->key());
  if (attachment != attachments_.end()) {
    attachment->second.news = news;
  } else {
    segment->stop_waiting(news);
  }
  return true;
}

bool Session::answer_attached(std::uint64_t request, const HostedSegment& segment) {
  Reply reply = {.id = request, .key = segment.key(), .version = segment.id(), .attaches = true};
  std::vector<std::byte> infos = encode_infos({server_.describe(segment)});
  // A message lends once: with a long description, the client asks for the state.
  if (infos.size() > inline_bytes(channel_.max_message_bytes())) {
    return reply_with(std::move(reply), std::move(infos));
  }
  reply.body = std::move(infos);
  return lend_region(reply, segment.state());
}

void Session::detach(std::uint64_t key) {
  std::shared_ptr<HostedSegment> segment;
  {
    const core::Lock lock(mutex_);
    const auto found = attachments_.find(key);
    if (found == attachments_.end()) return;
    segment = found->second.segment;
    if (--found->second.times == 0) {
      segment->stop_waiting(found->second.news);
      attachments_.erase(found);
    }
  }
  server_.table().detach(segment);
}

Result<std::vector<std::byte>> Session::copy_lent(const RemoteRegion& lent, std::uint64_t most) {
  if (lent.size() > most) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "create a segment"},
                         "the description has " + std::to_string(lent.size()) + " bytes",
                         "use at most " + std::to_string(most));
  }
  const auto bytes = std::make_shared<std::vector<std::byte>>();
  FARWRITE_RETURN_IF_ERROR(core::with_memory({.operation = "create a segment"}, "its description",
                                             [&] { bytes->resize(lent.size()); }));
  const Completion read = channel_.read({bytes->data(), bytes->size()}, lent);
  read.on_settled([bytes](const Status&) {});
  FARWRITE_RETURN_IF_ERROR(read.wait());
  return std::move(*bytes);
}

}  // namespace farwrite::box
