#include "box/messages.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <utility>

#include "core/status_wire.h"

namespace farwrite::box {
namespace {

constexpr std::string_view kReadRequest = "read a box request";
constexpr std::string_view kReadReply = "read a box reply";
constexpr std::size_t kMaxStatusBytes = 8192;

Status malformed(std::string_view operation, std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {.operation = operation}, cause,
                       "run the same release on both sides");
}

ByteView view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

std::vector<std::byte> copy(ByteView bytes) { return {bytes.data, bytes.data + bytes.size}; }

void write_change(core::WireWriter& writer, const ChangeFields& change) {
  writer.u8(static_cast<std::uint8_t>(change.operation));
  writer.u64(change.offset);
  writer.u64(change.length);
  writer.u8(change.factor.is_whole() ? 1 : 0);
  writer.u64(change.factor.is_whole() ? static_cast<std::uint64_t>(change.factor.whole())
                                      : std::bit_cast<std::uint64_t>(change.factor.real()));
  writer.u64(change.x_key);
  writer.u64(change.x_offset);
  writer.u64(change.y_key);
  writer.u64(change.y_offset);
  writer.u8(change.new_epoch ? 1 : 0);
}

ChangeFields read_change(core::WireReader& reader) {
  ChangeFields change;
  change.operation = static_cast<Operation>(reader.u8());
  change.offset = reader.u64();
  change.length = reader.u64();
  const bool whole = reader.u8() != 0;
  const std::uint64_t factor = reader.u64();
  if (whole) {
    change.factor = static_cast<std::int64_t>(factor);
  } else {
    change.factor = std::bit_cast<double>(factor);
  }
  change.x_key = reader.u64();
  change.x_offset = reader.u64();
  change.y_key = reader.u64();
  change.y_offset = reader.u64();
  change.new_epoch = reader.u8() != 0;
  return change;
}

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

void write_spec(core::WireWriter& writer, const SegmentSpec& spec) {
  writer.string(spec.name);
  writer.u8(static_cast<std::uint8_t>(spec.type));
  writer.u32(spec.buffers);
  writer.u8(spec.temporary ? 1 : 0);
  writer.u8(static_cast<std::uint8_t>(spec.dims.size()));
  for (const std::uint64_t dim : spec.dims) writer.u64(dim);
}

SegmentSpec read_spec(core::WireReader& reader) {
  SegmentSpec spec;
  spec.name = reader.string(kMaxNameBytes);
  spec.type = static_cast<ElementType>(reader.u8());
  spec.buffers = reader.u32();
  spec.temporary = reader.u8() != 0;
  const std::uint8_t rank = reader.u8();
  for (std::uint8_t i = 0; i < rank && reader.ok(); ++i) spec.dims.push_back(reader.u64());
  return spec;
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

std::vector<std::byte> Request::encode() const {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(verb));
  writer.u64(id);
  writer.u64(key);
  writer.u64(number);
  if (verb == Verb::kAttachName || verb == Verb::kDescribe) writer.string(name);
  if (verb == Verb::kWaitVersion) writer.u64(epoch);
  if (verb == Verb::kCreate) {
    write_spec(writer, spec);
    writer.u8(static_cast<std::uint8_t>(creation));
  }
  if (verb == Verb::kChange) write_change(writer, change);
  if (verb == Verb::kCreate || verb == Verb::kChange) writer.blob(view(bytes));
  return writer.take();
}

Result<Request> Request::decode(ByteView message) {
  core::WireReader reader(message);
  Request request;
  request.verb = static_cast<Verb>(reader.u8());
  request.id = reader.u64();
  request.key = reader.u64();
  request.number = reader.u64();
  if (request.verb == Verb::kAttachName || request.verb == Verb::kDescribe) {
    request.name = reader.string(kMaxNameBytes);
  }
  if (request.verb == Verb::kWaitVersion) request.epoch = reader.u64();
  if (request.verb == Verb::kCreate) {
    request.spec = read_spec(reader);
    request.creation = static_cast<Creation>(reader.u8());
  }
  if (request.verb == Verb::kChange) request.change = read_change(reader);
  if (request.verb == Verb::kCreate || request.verb == Verb::kChange) {
    request.bytes = copy(reader.blob(kInlineBytes));
  }
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadRequest));
  if (!known(request.verb)) return malformed(kReadRequest, "its verb is unknown");
  if (request.id == 0) return malformed(kReadRequest, "its number is 0");
  if (request.creation > Creation::kOpenOrCreate) {
    return malformed(kReadRequest, "its kind of creation is unknown");
  }
  if (request.verb == Verb::kChange && !known(request.change.operation)) {
    return malformed(kReadRequest, "its operation is unknown");
  }
  return request;
}

std::vector<std::byte> Reply::encode() const {
  core::WireWriter writer;
  writer.u64(id);
  writer.u64(key);
  writer.u64(version.epoch);
  writer.u64(version.version);
  writer.u64(number);
  writer.u64(buffer);
  writer.blob(view(core::status_to_bytes(status)));
  const bool has_region = region.length > 0 || !region.keys.empty();
  writer.blob(has_region ? view(region.to_bytes()) : ByteView());
  writer.blob(view(body));
  return writer.take();
}

Result<Reply> Reply::decode(ByteView message) {
  core::WireReader reader(message);
  Reply reply;
  reply.id = reader.u64();
  reply.key = reader.u64();
  reply.version.epoch = reader.u64();
  reply.version.version = reader.u64();
  reply.number = reader.u64();
  reply.buffer = reader.u64();
  const ByteView status = reader.blob(kMaxStatusBytes);
  const ByteView region = reader.blob(RegionDescriptor::kMaxBytes);
  reply.body = copy(reader.blob(kInlineBytes));
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadReply));
  FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(status, reply.status));
  if (region.size > 0) {
    Result<RegionDescriptor> descriptor = RegionDescriptor::from_bytes(region);
    if (!descriptor.ok()) return descriptor.status();
    reply.region = *std::move(descriptor);
  }
  return reply;
}

std::vector<std::byte> encode_infos(const std::vector<SegmentInfo>& infos) {
  core::WireWriter writer;
  writer.u32(static_cast<std::uint32_t>(infos.size()));
  for (const SegmentInfo& info : infos) {
    write_spec(writer, info.spec);
    writer.string(info.spec.description);
    writer.u64(info.key);
    writer.u64(info.bytes);
    writer.u64(info.epoch);
    writer.u64(info.version);
    writer.u32(info.attached);
    writer.u32(info.silent);
    writer.u64(static_cast<std::uint64_t>(info.age.count()));
  }
  return writer.take();
}

Result<std::vector<SegmentInfo>> decode_infos(ByteView bytes) {
  core::WireReader reader(bytes);
  const std::uint32_t count = reader.u32();
  if (count > kMaxListed) return malformed(kReadReply, "it lists too many segments");
  std::vector<SegmentInfo> infos;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    SegmentInfo info;
    info.spec = read_spec(reader);
    info.spec.description = reader.string(kMaxDescription);
    info.key = reader.u64();
    info.bytes = reader.u64();
    info.epoch = reader.u64();
    info.version = reader.u64();
    info.attached = reader.u32();
    info.silent = reader.u32();
    info.age = std::chrono::nanoseconds(
        std::min<std::uint64_t>(reader.u64(), std::numeric_limits<std::int64_t>::max()));
    if (!reader.ok()) break;
    const Result<std::uint64_t> size = checked_bytes(info.spec);
    if (!size.ok()) return malformed(kReadReply, size.status().message());
    if (size.value() != info.bytes) return malformed(kReadReply, "a segment's size is wrong");
    infos.push_back(std::move(info));
  }
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReadReply));
  return infos;
}

}  // namespace farwrite::box
