// Follows HTTP/2 however its bytes are cut.
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "grpc/http2_watcher.h"
#include "grpc/upgrade_frame.h"

namespace farwrite::grpc {
namespace {

using Event = Http2Watcher::Event;
using ::testing::ElementsAre;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string http2_frame(std::uint8_t type, std::uint8_t flags, std::string_view payload) {
  const std::size_t size = payload.size();
  std::string frame = {static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8),
                       static_cast<char>(size),
                       static_cast<char>(type),
                       static_cast<char>(flags),
                       0,
                       0,
                       0,
                       0};
  return frame.append(payload);
}

ByteView view(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The events of `text`, which is given in parts of `part` bytes.
std::vector<Event> events(Http2Watcher& watcher, std::string_view text, std::size_t part) {
  std::vector<Event> seen;
  for (std::size_t at = 0; at < text.size(); at += part) {
    std::string_view bytes = text.substr(at, part);
    while (!bytes.empty()) {
      Event event = Event::kNone;
      bytes.remove_prefix(watcher.next(view(bytes), event));
      if (event != Event::kNone) seen.push_back(event);
    }
  }
  return seen;
}

const std::string kSettings = http2_frame(4, 0, std::string(12, 's'));

TEST(Http2Watcher, FindsTheSameEventsHoweverTheBytesAreCut) {
  UpgradeFrame upgrade;
  upgrade.local = "127.0.0.1 50051";
  const std::string text = std::string(kPreface) + kSettings + upgrade.encode() +
                           http2_frame(1, 4, std::string(300, 'h')) + http2_frame(0, 1, "data") +
                           http2_frame(4, 1, "") + http2_frame(7, 0, std::string(8, 'g'));
  for (std::size_t part = 1; part <= text.size(); ++part) {
    Http2Watcher watcher;
    EXPECT_THAT(events(watcher, text, part),
                ElementsAre(Event::kSettings, Event::kUpgrade, Event::kFrame, Event::kFrame,
                            Event::kSettingsAck, Event::kGoaway))
        << part;
    EXPECT_TRUE(watcher.has_preface());
  }
}

TEST(Http2Watcher, GivesThePayloadOfAnUpgradeFrame) {
  UpgradeFrame upgrade;
  upgrade.kind = UpgradeKind::kReady;
  upgrade.stream = 77;
  const std::string text = kSettings + upgrade.encode();
  for (std::size_t part = 1; part <= text.size(); ++part) {
    Http2Watcher watcher;
    EXPECT_THAT(events(watcher, text, part), ElementsAre(Event::kSettings, Event::kUpgrade));
    auto decoded = UpgradeFrame::decode(watcher.payload());
    ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
    EXPECT_EQ(decoded->stream, 77U);
    EXPECT_FALSE(watcher.has_preface());
  }
}

TEST(Http2Watcher, TakesFramesBehindSettingsAndOutsideOfHeaderBlocks) {
  Http2Watcher watcher;
  const auto feed = [&](std::string_view text) { events(watcher, text, text.size()); };
  EXPECT_FALSE(watcher.takes_frames());
  feed(kPreface);
  EXPECT_FALSE(watcher.takes_frames());
  feed(std::string_view(kSettings).substr(0, 5));
  EXPECT_FALSE(watcher.takes_frames());
  feed(std::string_view(kSettings).substr(5));
  EXPECT_TRUE(watcher.takes_frames());
  feed(http2_frame(1, 0, "headers"));  // no END_HEADERS
  EXPECT_FALSE(watcher.takes_frames());
  feed(http2_frame(9, 0, "more"));
  EXPECT_FALSE(watcher.takes_frames());
  feed(http2_frame(9, 4, "last"));
  EXPECT_TRUE(watcher.takes_frames());
  feed(http2_frame(0, 0, "data").substr(0, 10));
  EXPECT_FALSE(watcher.takes_frames());
}

TEST(Http2Watcher, OtherProtocolsAreNone) {
  for (const std::string_view text :
       {std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", 10),  // TLS
        std::string_view("GET / HTTP/1.1\r\n\r\n"), std::string_view("CONNECT a:1 HTTP/1.1\r\n"),
        std::string_view("PRI * HTTP/3.0\r\n"), std::string_view("POST / HTTP/1.1\r\n")}) {
    Http2Watcher watcher;
    Event event = Event::kNone;
    EXPECT_EQ(watcher.next(view(text), event), text.size());
    EXPECT_EQ(event, Event::kNotHttp2) << text;
    EXPECT_FALSE(watcher.takes_frames());
  }
}

TEST(Http2Watcher, AnUpgradeFrameThatIsTooLongIsNotCollected) {
  Http2Watcher watcher;
  const std::string text =
      kSettings + http2_frame(kUpgradeFrameType, 0, std::string(kMaxUpgradeBytes + 1, 'x'));
  EXPECT_THAT(events(watcher, text, text.size()), ElementsAre(Event::kSettings, Event::kNotHttp2));
}

}  // namespace
}  // namespace farwrite::grpc
