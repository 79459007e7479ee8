// WireReader: any sequence of reads over any bytes.
#include <algorithm>

#include "core/wire.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

enum Read : std::uint8_t { kU8, kU16, kU32, kU64, kBytes, kBlob, kString, kReads };

// Does one read; writes what it gave, so that the writer must give the same bytes again.
void read(core::WireReader& reader, core::WireWriter& writer, std::uint8_t kind,
          std::uint8_t bound) {
  if (kind == kU8) {
    writer.u8(reader.u8());
  } else if (kind == kU16) {
    writer.u16(reader.u16());
  } else if (kind == kU32) {
    writer.u32(reader.u32());
  } else if (kind == kU64) {
    writer.u64(reader.u64());
  } else if (kind == kBytes) {
    const ByteView raw = reader.bytes(bound);
    require(raw.size == (reader.ok() ? bound : 0), "all bytes or none");
    writer.bytes(raw);
  } else if (kind == kBlob) {
    const ByteView blob = reader.blob(bound);
    require(blob.size <= bound, "a blob is bounded");
    writer.blob(blob);
  } else {
    const std::string text = reader.string(bound);
    require(text.size() <= bound, "a string is bounded");
    writer.string(text);
  }
}

void require_failed_for_good(core::WireReader& reader) {
  const std::size_t position = reader.position();
  const Status first = reader.finish("fuzz", core::TailBytes::kAllowed);
  require_refusal(first);
  require(reader.remaining() == 0, "a failed reader has nothing left");
  require(reader.u64() == 0 && reader.bytes(1).size == 0 && reader.string(9).empty(),
          "a failed reader gives nothing");
  require(!reader.ok() && reader.position() == position, "the first failure sticks");
  require(reader.finish("fuzz").message() == first.message(), "the first failure is the one told");
}

void run(ByteView input) {
  Script script(input);
  const ByteView program = script.bytes(2 * std::size_t{script.u8()});
  const ByteView bytes = script.rest();
  core::WireReader reader(bytes);
  core::WireWriter writer;
  for (std::size_t at = 0; at + 1 < program.size; at += 2) {
    const std::size_t written = writer.size();
    read(reader, writer, std::to_integer<std::uint8_t>(program.data[at]) % kReads,
         std::to_integer<std::uint8_t>(program.data[at + 1]));
    require(reader.position() <= bytes.size, "a reader stays inside its input");
    if (!reader.ok()) {
      require(reader.position() == written, "a failure names where its field starts");
      require_failed_for_good(reader);
      return;
    }
    require(reader.position() + reader.remaining() == bytes.size, "every byte is read or left");
  }
  require(writer.size() == reader.position() &&
              std::equal(writer.buffer().begin(), writer.buffer().end(), bytes.data),
          "writing what was read gives the same bytes");
  const Status finished = reader.finish("fuzz");
  require(finished.ok() == (reader.remaining() == 0), "left-over bytes are an error");
  if (!finished.ok()) require_refusal(finished);
}

Seeds seeds() {
  core::WireWriter script;
  script.u8(kReads);
  core::WireWriter content;
  for (std::uint8_t kind = 0; kind < kReads; ++kind) {
    script.u8(kind);
    script.u8(4);
  }
  content.u8(1);
  content.u16(2);
  content.u32(3);
  content.u64(4);
  const Bytes four(4, std::byte{'x'});
  content.bytes(view_of(four));
  content.blob(view_of(four));
  content.string("text");
  core::WireWriter too_long;
  too_long.u8(1);
  too_long.u8(kBlob);
  too_long.u8(4);
  too_long.u32(0xffffffff);
  const Bytes one_too_many(1, std::byte{0});
  return {{"every-read", concatenated({script.buffer(), content.buffer()})},
          {"left-over", concatenated({script.buffer(), content.buffer(), one_too_many})},
          {"too-long", too_long.take()}};
}

[[maybe_unused]] const bool kAdded = add_target({"wire", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
