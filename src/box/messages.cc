#include "box/messages.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <utility>

#include "core/status_wire.h"

namespace farwrite::box {
namespace {

constexpr core::Reading kReadRequest = {.operation = "read a box request",
                                        .remedy = "run the same release on both sides"};
constexpr core::Reading kReadReply = {.operation = "read a box reply",
                                      .remedy = "run the same release on both sides"};
constexpr std::size_t kMaxStatusBytes = 8192;

// u8 kind and 8 bytes: 0, a double; 1, a whole number in two's complement.
struct FactorField {
  Factor& factor;

  template <typename Wire>
  void fields(Wire& wire) {
    bool whole = factor.is_whole();
    std::uint64_t bits = whole ? static_cast<std::uint64_t>(factor.whole())
                               : std::bit_cast<std::uint64_t>(factor.real());
    wire(whole, bits);
    if constexpr (Wire::kReads) {
      factor =
          whole ? Factor(static_cast<std::int64_t>(bits)) : Factor(std::bit_cast<double>(bits));
    }
  }
};

struct IdField {
  VersionId& id;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(id.epoch, id.version);
  }
};

// An answer's body.
struct Infos {
  std::vector<SegmentInfo> infos;

  template <typename Wire>
  void fields(Wire& wire) {
    auto count = static_cast<std::uint32_t>(infos.size());
    wire(count);
    wire.require(count <= kMaxListed, "it lists too many segments");
    for (std::uint32_t i = 0; i < count && wire.ok(); ++i) {
      if constexpr (Wire::kReads) infos.emplace_back();
      info(wire, infos[i]);
    }
  }
  template <typename Wire>
  static void info(Wire& wire, SegmentInfo& info) {
    auto age = static_cast<std::uint64_t>(info.age.count());
    wire(SegmentSpecField{info.spec}, core::sized(info.spec.description, kMaxDescription), info.key,
         info.bytes, info.epoch, info.version, info.attached, info.silent, age);
    if constexpr (Wire::kReads) {
      constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
      info.age = std::chrono::nanoseconds(std::min(age, kMost));
      if (!wire.ok()) return;
      const Result<std::uint64_t> size = checked_bytes(info.spec);
      if (!size.ok()) {
        return wire.fail(Status::error(StatusCode::kProtocolError, {kReadReply.operation},
                                       size.status().message(), kReadReply.remedy));
      }
      wire.require(size.value() == info.bytes, "a segment's size is wrong");
    }
  }
};

bool known(Operation operation) {
  return operation >= Operation::kWrite && operation <= Operation::kSignal;
}

bool known(Verb verb) { return verb >= Verb::kCreate && verb <= Verb::kDescribe; }

}  // namespace

std::string_view name_of(Verb verb) {
  switch (verb) {
    case Verb::kCreate:
      return "create a segment";
    case Verb::kAttachName:
    case Verb::kAttachKey:
      return "attach a segment";
    case Verb::kDetach:
      return "detach a segment";
    case Verb::kFree:
      return "free a segment";
    case Verb::kList:
      return "list the segments";
    case Verb::kChange:
      return "change a segment";
    case Verb::kWaitVersion:
      return "wait for a version";
    case Verb::kCancel:
      return "cancel a wait";
    case Verb::kLease:
      return "lease a version";
    case Verb::kRelease:
      return "release a lease";
    case Verb::kOpenBuffer:
      return "read a segment";
    case Verb::kDescribe:
      return "look a segment up";
  }
  return "use the box";
}

bool takes_memory(Operation operation) {
  return operation == Operation::kWrite || operation == Operation::kAccumulate ||
         operation == Operation::kAxpy;
}

Status check_name(std::string_view operation, std::string_view name) {
  if (!name.empty() && name.size() <= kMaxNameBytes) return Status();
  return Status::error(StatusCode::kInvalidArgument, {.operation = operation},
                       "the name has " + std::to_string(name.size()) + " bytes",
                       "use 1 to " + std::to_string(kMaxNameBytes) + " bytes");
}

Result<std::uint64_t> checked_bytes(const SegmentSpec& spec) {
  const auto refuse = [&](std::string_view cause, std::string_view remedy) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "create a segment"}, cause,
                         remedy);
  };
  if (Status named = check_name("create a segment", spec.name); !named.ok()) return named;
  if (spec.type > ElementType::kInt64) {
    return refuse("the element type " + std::to_string(static_cast<int>(spec.type)) + " is unknown",
                  "run the same release on both sides");
  }
  if (spec.buffers < 2 || spec.buffers > kMaxBuffers) {
    return refuse(std::to_string(spec.buffers) + " buffers are out of range",
                  "use 2 to " + std::to_string(kMaxBuffers));
  }
  if (spec.description.size() > kMaxDescription) {
    return refuse("the description has " + std::to_string(spec.description.size()) + " bytes",
                  "use at most " + std::to_string(kMaxDescription));
  }
  if (spec.dims.size() > kMaxRank) {
    return refuse("the shape has " + std::to_string(spec.dims.size()) + " dimensions",
                  "use at most " + std::to_string(kMaxRank));
  }
  if (std::find(spec.dims.begin(), spec.dims.end(), 0) != spec.dims.end()) return 0;
  std::uint64_t bytes = bytes_of(spec.type);
  for (const std::uint64_t dim : spec.dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes >> 62 != 0) {
      return refuse("the shape has more than 2^62 bytes", "use a smaller shape");
    }
  }
  return bytes;
}

template <typename Wire>
void ChangeFields::fields(Wire& wire) {
  wire(operation, offset, length, FactorField{factor}, x_key, x_offset, y_key, y_offset, new_epoch);
  wire.require(known(operation), "its operation is unknown");
}

template <typename Wire>
void Request::fields(Wire& wire) {
  wire(verb, id, key, number);
  wire.require(known(verb), "its verb is unknown");
  wire.require(id != 0, "its number is 0");
  if (verb == Verb::kAttachName || verb == Verb::kDescribe) wire(core::sized(name, kMaxNameBytes));
  if (verb == Verb::kWaitVersion) wire(epoch);
  if (verb == Verb::kCreate) wire(SegmentSpecField{spec}, creation);
  wire.require(creation <= Creation::kOpenOrCreate, "its kind of creation is unknown");
  if (verb == Verb::kChange) wire(change);
  if (verb == Verb::kCreate || verb == Verb::kChange) wire(core::sized(bytes, kInlineBytes));
}

template <typename Wire>
void Reply::fields(Wire& wire) {
  wire(id, key, IdField{version}, number, buffer, row, attaches,
       core::status(status, kMaxStatusBytes), core::sized(body, kInlineBytes));
  wire.require(row < kMaxBuffers, "its row does not exist");
}

std::vector<std::byte> Request::encode() const { return core::to_bytes(*this); }
std::vector<std::byte> Reply::encode() const { return core::to_bytes(*this); }

Result<Request> Request::decode(ByteView message) {
  return core::from_bytes<Request>(message, kReadRequest);
}
Result<Reply> Reply::decode(ByteView message) {
  return core::from_bytes<Reply>(message, kReadReply);
}

std::vector<std::byte> encode_infos(const std::vector<SegmentInfo>& infos) {
  return core::to_bytes(Infos{infos});
}

Result<std::vector<SegmentInfo>> decode_infos(ByteView bytes) {
  Result<Infos> infos = core::from_bytes<Infos>(bytes, kReadReply);
  if (!infos.ok()) return infos.status();
  return std::move(infos->infos);
}

}  // namespace farwrite::box
