// What a gRPC peer sends before its bytes leave TCP: HTTP/2 frames, cut anywhere.
#include <algorithm>
#include <string>

#include "grpc/http2_watcher.h"
#include "grpc/upgrade_frame.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using grpc::Http2Watcher;
using grpc::UpgradeFrame;

// The first byte says in how long parts the rest comes.
void run(ByteView input) {
  if (input.size == 0) return;
  const std::size_t part = std::max<std::size_t>(std::to_integer<std::size_t>(input.data[0]), 1);
  Http2Watcher whole;
  Http2Watcher cut;
  std::size_t found[2] = {0, 0};
  const ByteView bytes = {input.data + 1, input.size - 1};
  const auto feed = [&](Http2Watcher& watcher, ByteView piece, std::size_t& count) {
    while (piece.size > 0) {
      Http2Watcher::Event event = Http2Watcher::Event::kNone;
      const std::size_t used = watcher.next(piece, event);
      require(used > 0 && used <= piece.size, "it moves on, and not too far");
      piece = {piece.data + used, piece.size - used};
      if (event == Http2Watcher::Event::kUpgrade) {
        ++count;
        require(watcher.payload().size <= grpc::kMaxUpgradeBytes, "a payload is bounded");
        const auto frame = UpgradeFrame::decode(watcher.payload());
        if (!frame.ok()) require_refusal(frame.status());
      }
    }
  };
  feed(whole, bytes, found[0]);
  for (std::size_t at = 0; at < bytes.size; at += part) {
    feed(cut, {bytes.data + at, std::min(part, bytes.size - at)}, found[1]);
  }
  require(found[0] == found[1] && whole.takes_frames() == cut.takes_frames() &&
              whole.has_preface() == cut.has_preface(),
          "the cuts make no difference");
}

Bytes to_bytes(const std::string& text) {
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

Seeds seeds() {
  const std::string settings = std::string("\0\0\6\4\0\0\0\0\0", 9) + "abcdef";
  UpgradeFrame hello;
  hello.local = "127.0.0.1 1";
  UpgradeFrame answer = hello;
  answer.kind = grpc::UpgradeKind::kAnswer;
  answer.endpoint = "127.0.0.1:2";
  return {{"client", to_bytes("\7PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + hello.encode())},
          {"server", to_bytes("\x40" + settings + answer.encode())},
          {"tls", to_bytes("\1\x16\x03\x01\x02")}};
}

[[maybe_unused]] const bool kAdded = add_target({"grpc_upgrade", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
