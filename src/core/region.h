// MemoryRegion, RemoteRegion and Alias of the library: what each does is written in
// farwrite/region.h.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/completion.h"
#include "core/region_descriptor.h"
#include "farwrite/bytes.h"
#include "farwrite/memory_kind.h"
#include "farwrite/region_types.h"
#include "farwrite/status.h"

namespace farwrite {

class Channel;

namespace device {
class RegionState;
class RemoteRegionState;
}  // namespace device

class MemoryRegion {
 public:
  MemoryRegion() = default;
  explicit MemoryRegion(std::shared_ptr<device::RegionState> state) : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  std::byte* data() const;
  std::size_t size() const;
  MemoryKind kind() const;
  Access access() const;
  RegionDescriptor descriptor() const;

  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  friend class Device;
  friend class Channel;
  std::shared_ptr<device::RegionState> state_;
};

class RemoteRegion {
 public:
  RemoteRegion() = default;
  explicit RemoteRegion(std::shared_ptr<device::RemoteRegionState> state)
      : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  std::size_t size() const;
  Access access() const;
  MemoryKind kind() const;
  const RegionDescriptor& descriptor() const;
  const std::string& description() const;
  bool reached() const;

 private:
  friend class Channel;
  friend Channel channel_of(const RemoteRegion& region);
  std::shared_ptr<device::RemoteRegionState> state_;
};

class Alias {
 public:
  Alias() = default;
  Alias(std::shared_ptr<device::RemoteRegionState> state, ByteView bytes)
      : state_(std::move(state)), bytes_(bytes) {}

  const std::byte* data() const { return bytes_.data; }
  std::size_t size() const { return bytes_.size; }
  MemoryKind kind() const;

 private:
  std::shared_ptr<device::RemoteRegionState> state_;
  ByteView bytes_;
};

}  // namespace farwrite
