// The experiments' rpc-over-fabric: a peer that writes into the ring, reports bytes and gives room
// back as it likes, and the heads that lie in the ring then.
#include <algorithm>
#include <cstring>
#include <memory>

#include "experiments/tensorflow/piece_queue.h"
#include "experiments/tensorflow/ring_reader.h"
#include "experiments/tensorflow/rpc_frame.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using experiments::Piece;
using experiments::PieceQueue;
using experiments::RingReader;
using experiments::RingWrite;
using experiments::RpcHead;
using experiments::RpcKind;

enum Step : std::uint8_t { kScribble, kWritten, kServe, kReply, kPush, kTaken, kSteps };

constexpr std::uint64_t kPeersRing = 600;

// The end that reads. What is checked against is computed from the peer's numbers alone.
class Receiver {
 public:
  explicit Receiver(std::size_t bytes)
      : bytes_(bytes), ring_(new std::byte[bytes]()), reader_({ring_.get(), bytes}, "peer") {}

  void scribble(Script& script) {
    const std::size_t at = script.u16() % bytes_;
    const ByteView bytes = script.bytes(std::min<std::size_t>(script.u8(), bytes_ - at));
    if (bytes.size > 0) std::memcpy(ring_.get() + at, bytes.data, bytes.size);
  }

  void written(std::uint32_t bytes) {
    const bool fits = bytes <= bytes_ - available_;
    const Status status = reader_.add(bytes);
    require(status.ok() == fits, "bytes are counted if the ring has room for them, and only then");
    if (!fits) require_refusal(status);
    if (fits) available_ += bytes;
    require(reader_.available() == available_, "what was refused changes nothing");
  }

  // As a server reads a frame, or a client.
  void read_frame(bool serves) {
    RpcHead head;
    if (available_ < sizeof(head)) return;
    const Bytes raw = take(sizeof(head));
    std::memcpy(&head, raw.data(), sizeof(head));
    const Status status =
        serves ? head.check_from_client("peer") : head.check_from_server(kLastRequest, "peer");
    if (!status.ok()) return require_refusal(status);
    require(head.id > 0, "an answer can be found by its id");
    if (serves) {
      require(head.kind == RpcKind::kRequest || head.kind == RpcKind::kCancel, "a kind is known");
      require(head.bytes <= RpcHead::kMostRequestBytes, "a request is bounded");
      require((head.bytes > 0) == (head.kind == RpcKind::kRequest), "a request has bytes");
    } else {
      require(head.kind == RpcKind::kReply, "a kind is known");
      require(head.id <= kLastRequest, "it was asked for");
      require(
          head.bytes <= (head.status == 0 ? RpcHead::kMostReplyBytes : RpcHead::kMostMessageBytes),
          "a reply is bounded");
      require(head.status != 0 || head.bytes > 0, "a tensor has bytes");
    }
    take(head.bytes);
  }

 private:
  static constexpr std::uint64_t kLastRequest = 9;

  // As many bytes as there are, at most `most`.
  Bytes take(std::uint64_t most) {
    Bytes taken;
    while (most > taken.size() && available_ > 0) {
      const ByteView next = reader_.peek(most - taken.size());
      require(next.size > 0 && next.size <= available_, "available bytes can be read");
      require(next.data == ring_.get() + read_ % bytes_ &&
                  next.data + next.size <= ring_.get() + bytes_,
              "they lie in the ring, behind those that were read");
      taken.insert(taken.end(), next.data, next.data + next.size);
      owed_ += next.size;
      read_ += next.size;
      available_ -= next.size;
      const std::uint64_t room = reader_.consume(next.size);
      require(room == 0 || room == owed_, "room goes back once");
      owed_ -= room;
      require(owed_ < std::max<std::uint64_t>(bytes_ / 8, 1), "and soon");
    }
    return taken;
  }

  const std::size_t bytes_;
  // Of its own in memory, so that AddressSanitizer sees a read past either end.
  std::unique_ptr<std::byte[]> ring_;
  RingReader reader_;
  std::uint64_t available_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t owed_ = 0;
};

// The end that writes.
class Sender {
 public:
  void push(std::size_t bytes) {
    const auto owner = std::make_shared<const Bytes>(bytes, std::byte{7});
    queue_.add(Piece{{owner->data(), owner->size()}, owner});
    waiting_ += bytes;
    write_all();
  }

  void taken(std::uint32_t bytes) {
    const Status status = queue_.add_credit(bytes);
    require(status.ok() == (bytes <= in_ring_), "room comes back only from what was written");
    if (!status.ok()) return require_refusal(status);
    in_ring_ -= bytes;
    write_all();
  }

 private:
  void write_all() {
    RingWrite write;
    while (queue_.next(write)) {
      require(write.offset == written_ % kPeersRing && write.offset + write.bytes() <= kPeersRing,
              "a write lies in the ring, behind the one before");
      written_ += write.bytes();
      in_ring_ += write.bytes();
      waiting_ -= write.bytes();
      require(in_ring_ <= kPeersRing, "no byte is overwritten before it was taken");
    }
    require(waiting_ == 0 || in_ring_ == kPeersRing, "all the room is used");
  }

  PieceQueue queue_{kPeersRing, "peer"};
  std::uint64_t waiting_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t in_ring_ = 0;
};

void run(ByteView input) {
  Script script(input);
  Receiver receiver(std::size_t{1} + script.u8());
  Sender sender;
  while (!script.empty()) {
    const std::uint8_t step = script.u8() % kSteps;
    if (step == kScribble) receiver.scribble(script);
    if (step == kWritten) receiver.written(script.u32());
    if (step == kServe) receiver.read_frame(/*serves=*/true);
    if (step == kReply) receiver.read_frame(/*serves=*/false);
    if (step == kPush) sender.push(script.u16() % 2000);
    if (step == kTaken) sender.taken(script.u32());
  }
}

Bytes bytes(std::initializer_list<int> values) {
  Bytes all;
  for (const int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

// A frame at the start of a ring of 256 bytes, and the step that reads it.
Bytes frame(RpcKind kind, std::uint64_t id, std::uint64_t length, std::int32_t status, Step reads) {
  RpcHead head;
  head.kind = kind;
  head.id = id;
  head.bytes = length;
  head.status = status;
  Bytes raw(sizeof(head));
  std::memcpy(raw.data(), &head, sizeof(head));
  return concatenated(
      {bytes({255, kScribble, 0, 0, 24}), raw, bytes({kWritten, 24 + 8, 0, 0, 0, reads})});
}

Seeds seeds() {
  const Bytes fill = bytes({kPush, 100, 2});  // 612 bytes into a ring of 600
  return {{"request", frame(RpcKind::kRequest, 1, 8, 0, kServe)},
          {"request-too-long", frame(RpcKind::kRequest, 1, 1 << 21, 0, kServe)},
          {"cancel", frame(RpcKind::kCancel, 1, 0, 0, kServe)},
          {"reply", frame(RpcKind::kReply, 9, 8, 0, kReply)},
          {"reply-endless", frame(RpcKind::kReply, 9, UINT64_MAX, 0, kReply)},
          {"reply-unasked", frame(RpcKind::kReply, 10, 8, 0, kReply)},
          {"status", frame(RpcKind::kReply, 2, 8, 14, kReply)},
          {"status-unknown", frame(RpcKind::kReply, 2, 8, 77, kReply)},
          {"written-too-much", bytes({255, kWritten, 1, 1, 0, 0})},
          {"around-the-end", concatenated({frame(RpcKind::kRequest, 1, 200, 0, kServe),
                                           bytes({kWritten, 200, 0, 0, 0, kServe, kServe})})},
          {"ring-of-a-byte", bytes({0, kWritten, 1, 0, 0, 0, kServe})},
          {"sender-fills-up", concatenated({bytes({9}), fill, bytes({kTaken, 90, 2, 0, 0})})},
          {"sender-told-nonsense", concatenated({bytes({9}), fill, bytes({kTaken, 89, 2, 0, 0}),
                                                 bytes({kTaken, 0, 0, 0, 1})})}};
}

[[maybe_unused]] const bool kAdded = add_target({"rpc_ring", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
