// Messages: what a client of a box asks, and what the server answers. docs/reference/protocol.md,
// "Box messages", has the bytes. Nothing here is trusted: every count and length is checked before
// anything is made of it.
//
// A request's answer carries its number. Requests of one client are answered in any order, and its
// changes are applied in the order of sending.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "box/box.h"
#include "core/fields.h"
#include "core/region.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// PeerInfo::service of a server.
inline constexpr std::string_view kService = "box";

// The most bytes of a change, or of an answer's body, that travel inside the message.
inline constexpr std::uint64_t kInlineBytes = 4096;
// The same on a channel whose messages have at most `max_message_bytes`.
constexpr std::uint64_t inline_bytes(std::uint64_t max_message_bytes) {
  constexpr std::uint64_t kOtherFields = 1536;  // the status, and the rest
  const std::uint64_t left =
      max_message_bytes > kOtherFields ? max_message_bytes - kOtherFields : 0;
  return left < kInlineBytes ? left : kInlineBytes;
}
// A list of segments is no longer than this.
inline constexpr std::uint32_t kMaxListed = 1 << 20;

enum class Verb : std::uint8_t {
  kCreate = 1,       // spec, creation; the description lent, or in `bytes`
  kAttachName = 2,   // name, number: wait for it (1) or not (0)
  kAttachKey = 3,    // key
  kDetach = 4,       // key; no answer
  kFree = 5,         // key
  kList = 6,         //
  kChange = 7,       // key, change; x lent, in `bytes`, or a segment
  kWaitVersion = 8,  // key, number: the version; epoch: another one ends the wait as well
  kCancel = 9,       // number: the request that shall wait no longer; no answer
  kLease = 10,       // key; the answer lends the bytes
  kRelease = 11,     // number: the lease; no answer
  kOpenBuffer = 12,  // key, number: the buffer; 0: the state
  kDescribe = 13,    // name
};

// What errors call a request.
std::string_view name_of(Verb verb);

// Whether a change has a first source: memory of the client, or a segment.
bool takes_memory(Operation operation);

// The part of a Change that travels: its memory does not.
struct ChangeFields {
  Operation operation = Operation::kSignal;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Factor factor = 1.0;
  std::uint64_t x_key = 0;  // 0: x is lent or in the request
  std::uint64_t x_offset = 0;
  std::uint64_t y_key = 0;
  std::uint64_t y_offset = 0;
  bool new_epoch = false;

  template <typename Wire>
  void fields(Wire& wire);
};

struct Request {
  Verb verb = Verb::kList;
  std::uint64_t id = 0;  // never 0
  std::uint64_t key = 0;
  std::uint64_t number = 0;
  std::uint64_t epoch = 0;  // of kWaitVersion; 0: any will do
  std::string name = {};
  SegmentSpec spec = {};  // without its description
  Creation creation = Creation::kExclusive;
  ChangeFields change = {};
  std::vector<std::byte> bytes = {};

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<Request> decode(ByteView message);
};

// id 0: no answer, but the news that the segment of `key` was freed.
struct Reply {
  std::uint64_t id = 0;
  Status status = {};
  std::uint64_t key = 0;
  VersionId version = {};
  std::uint64_t number = 0;  // of a lease
  std::uint64_t buffer = 0;  // that was opened, and is lent; of a change: the current one
  std::uint32_t row = 0;     // of a change: that buffer's
  bool attaches = false;     // the client has attached the segment once more
  // Encoded SegmentInfos (attach, list), unless they were lent. With those of an attached segment,
  // its state is lent.
  std::vector<std::byte> body = {};

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> encode() const;
  static Result<Reply> decode(ByteView message);
};

// One or several SegmentInfos, with their descriptions.
std::vector<std::byte> encode_infos(const std::vector<SegmentInfo>& infos);
Result<std::vector<SegmentInfo>> decode_infos(ByteView bytes);

// A spec in a message or a file, without its description.
struct SegmentSpecField {
  SegmentSpec& spec;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(core::sized(spec.name, kMaxNameBytes), spec.type, spec.buffers, spec.temporary,
         core::list<std::uint8_t>(spec.dims, UINT8_MAX, "it has too many dimensions"));
  }
};

// kInvalidArgument for a name that no segment can have.
Status check_name(std::string_view operation, std::string_view name);
// kInvalidArgument for a name, rank, size or number of buffers that no segment can have.
Result<std::uint64_t> checked_bytes(const SegmentSpec& spec);

}  // namespace farwrite::box
