// Regions without a device around them, for the tables that hold regions.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

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
    auto memory = *RegionMemory::in(arena_, bytes);
    RegionDescriptor descriptor;
    descriptor.region_id = table_->next_id();
    descriptor.length = bytes;
    auto region = std::make_shared<RegionState>(table_, std::move(memory), descriptor, nullptr);
    table_->add(region);
    return region;
  }
  std::uint64_t used() const { return arena_->stats().used_bytes; }

  std::shared_ptr<RegionTable> table_ = std::make_shared<RegionTable>();
  std::shared_ptr<memory::Arena> arena_;
};

}  // namespace farwrite::device
