// Regions without a device around them, for the tables that hold regions.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "device/region_state.h"

namespace farwrite::device {

class WithRegions : public ::testing::Test {
 protected:
  WithRegions() {
    memory::ArenaOptions options;
    options.segment_bytes = std::uint64_t{2} << 20;
    options.prefault = false;
    arena_ = *memory::Arena::create(std::move(options));
  }
  std::shared_ptr<RegionState> make_region(std::uint64_t bytes = 4096) {
    const memory::Block block = *arena_->allocate(bytes);
    RegionDescriptor descriptor;
    descriptor.region_id = table_->next_id();
    descriptor.length = bytes;
    auto region = std::make_shared<RegionState>(table_, arena_, block, descriptor, nullptr);
    table_->add(region);
    return region;
  }
  std::uint64_t used() const { return arena_->stats().used_bytes; }

  std::shared_ptr<RegionTable> table_ = std::make_shared<RegionTable>();
  std::shared_ptr<memory::Arena> arena_;
};

}  // namespace farwrite::device
