// The first bytes of a connection that says it belongs to a tcp link.
#include <algorithm>

#include "fabric/tcp/join.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using fabric::tcp::JoinedMessage;
using fabric::tcp::JoinMessage;

template <typename Message>
void check(ByteView bytes) {
  expect_stable<Message>(bytes);
  auto message = Message::from_bytes(bytes);
  if (!message.ok()) return;
  const auto encoded = message->to_bytes();
  auto again = Message::from_bytes({encoded.data(), encoded.size()});
  require(again->lane == message->lane && again->proof == message->proof, "the fields survive");
}

void run(ByteView input) {
  Script script(input);
  return script.u8() % 2 == 0 ? check<JoinMessage>(script.rest())
                              : check<JoinedMessage>(script.rest());
}

template <typename Message>
Bytes seed(std::uint8_t kind, const Message& message) {
  const auto bytes = message.to_bytes();
  return concatenated({{static_cast<std::byte>(kind)}, Bytes(bytes.begin(), bytes.end())});
}

Seeds seeds() {
  const fabric::tcp::Secret secret{};
  return {{"join", seed(0, JoinMessage::of(secret, 0, 1))},
          {"join-last-lane", seed(0, JoinMessage::of(secret, 64, 65))},
          {"joined", seed(1, JoinedMessage::of(secret, 0))}};
}

[[maybe_unused]] const bool kAdded = add_target({"tcp_join", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
