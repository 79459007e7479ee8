#include "stream/stream_state.h"

#include <utility>

namespace farwrite::stream {

void StreamState::take(const StreamFrame& frame, std::vector<std::byte> message,
                       RemoteRegion lent) {
  Status wrong;
  bool known = true;
  switch (frame.kind) {
    case FrameKind::kBegin:
      wrong = incoming_->take_begin(frame.value, frame.payload);
      break;
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
      const Status status =
          Status::error(StatusCode::kUnavailable,
                        {.operation = "use a stream", .peer = link_->channel().peer_name()},
                        "the peer has ended it: " + frame.reason(), "open another stream");
      aborted_ = true;
      outgoing_->fail(status);
      incoming_->fail(status, true);
      return;
    }
    case FrameKind::kProbe:
    case FrameKind::kProbed:
    case FrameKind::kBreak:
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
  // Before any callback, which may drop the stream.
  const bool peer_knows = over || aborted_.exchange(true);
  outgoing_->fail(reason);
  incoming_->fail(reason, true);
  if (!peer_knows) link_->tell({.kind = FrameKind::kAbort, .stream = number_}, reason);
}

void StreamState::end(const Status& reason) {
  outgoing_->fail(reason);
  incoming_->fail(reason, false);
}

}  // namespace farwrite::stream
