// Snapshot files: a disk, or a person, may have made anything of them. CRC-32C keeps a fuzzer out,
// so that the first byte of an input chooses where the rest goes: a whole file, a segment's record
// alone, or a file whose checksums are made right whatever it says.
#include "target.h"
#include "unit/snapshot_builder.h"

namespace farwrite::fuzz {
namespace {

using box::SnapshotBuilder;
using box::SnapshotEnd;
using box::SnapshotEntry;
using box::SnapshotRecord;

enum class Way : std::uint8_t { kFile = 0, kEntry = 1, kForged = 2, kCount = 3 };

// Reads all that the file holds. `bytes` are what it was made of.
void run_file(ByteView bytes) {
  auto file = box::open_snapshot(bytes);
  if (!file.ok()) {
    require_refusal(file.status());
    return;
  }
  std::uint64_t data_bytes = 0;
  while (true) {
    auto entry = file->next();
    require(entry.ok(), "what was found whole is read to its end");
    if (!entry->has_value()) break;
    require((*entry)->check().ok(), "a server can create the segment");
    data_bytes += (*entry)->bytes;
    require(data_bytes < bytes.size, "the file holds the data of every segment");
    Bytes data((*entry)->bytes);
    require(file->read({data.data(), data.size()}).ok(), "what was found whole can be read");
  }
  require(!file->next()->has_value(), "nothing comes behind the end");
}

// Segments, each of a length, its content, a length, and its data; then what the end says.
void run_forged(Script script) {
  SnapshotBuilder builder;
  const std::uint8_t count = script.u8();
  for (std::uint8_t left = count % 8; left > 0; --left) {
    const ByteView content = script.bytes(script.u16());
    builder.segment(content, script.bytes(script.u16()));
  }
  SnapshotEnd end = builder.right_end();
  if ((count & 0x10) != 0) end.segments = script.u64();
  if ((count & 0x20) != 0) end.file_bytes = script.u64();
  if ((count & 0x40) != 0) end.structure = script.u32();
  if ((count & 0x80) != 0) builder.record(static_cast<SnapshotRecord>(script.u8()), script.rest());
  run_file(view_of(builder.finish(end)));
}

void run(ByteView input) {
  Script script(input);
  switch (static_cast<Way>(script.u8() % static_cast<std::uint8_t>(Way::kCount))) {
    case Way::kFile:
      run_file(script.rest());
      return;
    case Way::kEntry:
      expect_round_trip<SnapshotEntry>(script.rest());
      return;
    case Way::kForged:
    case Way::kCount:
      run_forged(script);
  }
}

SnapshotEntry entry(const std::string& name, std::vector<std::uint64_t> dims, std::uint64_t bytes) {
  SnapshotEntry made;
  made.spec.name = name;
  made.spec.type = box::ElementType::kInt32;
  made.spec.dims = std::move(dims);
  made.spec.description = "any text";
  made.key = 11;
  made.id = {.epoch = 43, .version = 42};
  made.bytes = bytes;
  return made;
}

Bytes chosen(Way way, const Bytes& rest) {
  return concatenated({{static_cast<std::byte>(way)}, rest});
}

Bytes with_length(ByteView bytes) {
  Bytes all = {static_cast<std::byte>(bytes.size), static_cast<std::byte>(bytes.size >> 8)};
  all.insert(all.end(), bytes.data, bytes.data + bytes.size);
  return all;
}

Seeds seeds() {
  const Bytes weights = entry("weights", {2, 3}, 24).to_bytes();
  const Bytes event = entry("event", {0}, 0).to_bytes();
  const Bytes data(24, std::byte{7});
  SnapshotBuilder whole;
  whole.segment(view_of(weights), view_of(data)).segment(view_of(event), {});
  const Bytes segment = concatenated({with_length(view_of(weights)), with_length(view_of(data))});
  const Bytes no_data = concatenated({with_length(view_of(weights)), with_length({})});
  return {
      {"file", chosen(Way::kFile, whole.finish())},
      {"file-without-segments", chosen(Way::kFile, SnapshotBuilder().finish())},
      {"entry", chosen(Way::kEntry, weights)},
      {"entry-of-an-event", chosen(Way::kEntry, event)},
      {"forged-but-right", chosen(Way::kForged, concatenated({{std::byte{1}}, segment}))},
      {"forged-without-data", chosen(Way::kForged, concatenated({{std::byte{1}}, no_data}))},
      {"forged-end", chosen(Way::kForged, concatenated({{std::byte{0x71}}, segment, Bytes(20)}))},
      {"forged-record",
       chosen(Way::kForged, concatenated({{std::byte{0x81}}, segment, Bytes(3)}))}};
}

[[maybe_unused]] const bool kAdded = add_target({"snapshot", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
