#include "stream/stream_state.h"

#include <algorithm>
#include <string>
#include <utility>

namespace farwrite::stream {
namespace {

// Of the reason in a kAbort.
constexpr std::size_t kMostReason = 512;

}  // namespace

void StreamState::take(const StreamFrame& frame, std::vector<std::byte> message,
                       RemoteRegion lent) {
  Status wrong;
  bool known = true;
  switch (frame.kind) {
    case FrameKind::kData:
      wrong = incoming_->take_data(std::move(message), frame.payload, std::move(lent));
      break;
    case FrameKind::kEnd:
      wrong = incoming_->take_end();
      break;
    case FrameKind::kCredit:
      known = outgoing_->add_credit(frame.value);
      break;
    case FrameKind::kTaken:
      known = outgoing_->taken();
      break;
    case FrameKind::kAbort: {
      const std::string why(reinterpret_cast<const char*>(frame.payload.data),
                            std::min(frame.payload.size, kMostReason));
      const Status status =
          Status::error(StatusCode::kUnavailable,
                        {.operation = "use a stream", .peer = link_->channel().peer_name()},
                        "the peer has ended it: " + why, "open another stream");
      outgoing_->fail(status);
      incoming_->fail(status, true);
      return;
    }
    case FrameKind::kProbe:
    case FrameKind::kProbed:
      return;
  }
  if (!known) {
    wrong =
        Status::error(StatusCode::kProtocolError, {.operation = "send a stream"},
                      "the peer confirms what was not sent", "run the same release on both sides");
  }
  if (!wrong.ok()) abort(wrong);
}

void StreamState::abort(const Status& reason) {
  const bool over = outgoing_->complete() && incoming_->complete();
  outgoing_->fail(reason);
  incoming_->fail(reason, true);
  if (over) return;  // the peer knows
  std::vector<std::byte> message = StreamFrame{.kind = FrameKind::kAbort, .stream = number_}.head();
  const std::string why = reason.message().substr(0, kMostReason);
  const auto* const text = reinterpret_cast<const std::byte*>(why.data());
  message.insert(message.end(), text, text + why.size());
  static_cast<void>(
      link_->channel().send({message.data(), message.size()}, 0, link_->lane(number_)));
}

void StreamState::end(const Status& reason) {
  outgoing_->fail(reason);
  incoming_->fail(reason, false);
}

}  // namespace farwrite::stream
