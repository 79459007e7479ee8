// The handshake's messages, one at a time: what a stranger's first bytes meet.
#include "core/status_wire.h"
#include "device/hello.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using device::Hello;
using device::HelloReply;
using device::TryFabric;

enum Message : std::uint8_t { kHello, kReply, kTryFabric, kStatus, kMessages };

// A Status is no class of ours with from_bytes() and to_bytes(); this makes it one.
struct WireStatus {
  Status status;

  Bytes to_bytes() const { return core::status_to_bytes(status); }
  static Result<WireStatus> from_bytes(ByteView bytes) {
    WireStatus decoded;
    FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(bytes, decoded.status));
    return decoded;
  }
};

void require_sane(const Hello& hello) {
  require(hello.lanes > 0, "a peer has a lane");
  require(hello.endpoint.host.size() <= 255, "a host is bounded");
  require(hello.fabrics.size() <= 16, "the fabrics are bounded");
  require(hello.token_origin.size() <= 512, "what a peer says of its token is bounded");
  require(hello.service.size() <= 64, "what a peer says it serves is bounded");
  for (const FabricKind kind : hello.fabrics) {
    require(!to_string(kind).empty(), "every fabric kind has a name to print");
  }
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t message = script.u8() % kMessages;
  const ByteView bytes = script.rest();
  if (message == kHello) {
    // Not a round trip: a hello of the first release gets an empty name, origin and service.
    expect_stable<Hello>(bytes);
    auto hello = Hello::from_bytes(bytes);
    if (!hello.ok()) return;
    require_sane(*hello);
    auto version = device::choose_version({}, hello->versions);
    if (!version.ok()) require_refusal(version.status());
    if (version.ok()) require(*version >= 1 && *version <= 2, "we speak the version chosen");
  } else if (message == kReply) {
    expect_stable<HelloReply>(bytes);
    auto reply = HelloReply::from_bytes(bytes);
    if (reply.ok()) require_sane(reply->hello);
  } else if (message == kTryFabric) {
    expect_round_trip<TryFabric>(bytes);
    auto attempt = TryFabric::from_bytes(bytes);
    if (attempt.ok()) require(attempt->address.size() <= 1024, "an address is bounded");
  } else {
    expect_round_trip<WireStatus>(bytes);
    auto status = WireStatus::from_bytes(bytes);
    if (!status.ok()) return;
    require(status->status.message().size() <= 4096, "a message is bounded");
    require(!to_string(status->status.code()).empty(), "every code has a name to print");
  }
}

Bytes seed(Message message, const Bytes& bytes) {
  return concatenated({{static_cast<std::byte>(message)}, bytes});
}

Seeds seeds() {
  Hello plain;
  plain.endpoint = {"127.0.0.1", 7777};
  plain.epoch = 7;
  plain.fabrics = {FabricKind::kShm};
  Hello full = plain;
  full.has_token = true;
  full.lanes = 64;
  full.endpoint.host = std::string(255, 'h');
  full.token_origin = std::string(512, 'o');
  full.service = std::string(64, 's');
  full.fabrics.assign(16, FabricKind::kTcp);
  Bytes earlier = plain.to_bytes();
  earlier.resize(earlier.size() - 12);  // without name, origin of the token and service
  Hello later = plain;
  later.versions = {3, 9};
  HelloReply reply;
  reply.hello = plain;
  reply.version = 2;
  const Bytes tail(3, std::byte{9});
  return {{"hello", seed(kHello, plain.to_bytes())},
          {"hello-longest", seed(kHello, full.to_bytes())},
          {"hello-of-the-first-release", seed(kHello, earlier)},
          {"hello-of-later-versions", seed(kHello, later.to_bytes())},
          {"hello-with-appended-fields", seed(kHello, concatenated({plain.to_bytes(), tail}))},
          {"reply", seed(kReply, reply.to_bytes())},
          {"try-shm", seed(kTryFabric, TryFabric{FabricKind::kShm, "farwrite-1"}.to_bytes())},
          {"try-unknown", seed(kTryFabric, TryFabric{FabricKind{200}, ""}.to_bytes())},
          {"status-ok", seed(kStatus, WireStatus{}.to_bytes())},
          {"status-unavailable",
           seed(kStatus, WireStatus{Status(StatusCode::kUnavailable, "away")}.to_bytes())}};
}

[[maybe_unused]] const bool kAdded = add_target({"hello", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
