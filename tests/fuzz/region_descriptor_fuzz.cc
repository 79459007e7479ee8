// Descriptors: they come from peers, and through users' hands from anywhere.
#include "core/region.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

void run(ByteView input) {
  expect_round_trip<RegionDescriptor>(input);
  auto region = RegionDescriptor::from_bytes(input);
  if (!region.ok()) return;
  require(input.size <= RegionDescriptor::kMaxBytes, "a descriptor is bounded");
  require(region->offset + region->length >= region->offset, "its range does not wrap around");
  require(region->access == Access::kRead || region->access == Access::kWrite,
          "its access is one of ours");
  auto again = RegionDescriptor::from_bytes(view_of(region->to_bytes()));
  require(again.ok() && again->keys.size() == region->keys.size(), "no key is lost");
  require(again->length == region->length && again->device_uuid == region->device_uuid,
          "the fields survive");
}

Seeds seeds() {
  RegionDescriptor bare;
  bare.device_uuid[0] = 1;
  bare.epoch = 2;
  bare.region_id = 3;
  bare.length = 64;
  RegionDescriptor keyed = bare;
  keyed.access = Access::kWrite;
  keyed.keys = {{FabricKind::kShm, 17}, {FabricKind::kTcp, 1}};
  RegionDescriptor longest = bare;
  longest.keys.assign(48, {FabricKind::kVerbs, 5});
  Bytes unknown_record = bare.to_bytes();
  unknown_record[2] = std::byte{7};  // the tail: a record of type 9 with 3 bytes
  for (const int each : {9, 0, 3, 0, 1, 2, 3}) {
    unknown_record.push_back(static_cast<std::byte>(each));
  }
  Bytes later = bare.to_bytes();
  later[0] = std::byte{2};
  return {{"bare", bare.to_bytes()},
          {"keyed", keyed.to_bytes()},
          {"longest", longest.to_bytes()},
          {"unknown-record", unknown_record},
          {"later-version", later}};
}

[[maybe_unused]] const bool kAdded = add_target({"region_descriptor", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
