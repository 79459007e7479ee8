// Device of the library: what it does is written in farwrite/device.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/region.h"
#include "device/channel.h"
#include "device/registration.h"
#include "farwrite/device_types.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite {

namespace device {
class DeviceState;
}

class Device {
 public:
  static Result<Device> open(const DeviceOptions& options = {});

  Device() = default;
  explicit Device(std::shared_ptr<device::DeviceState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  Endpoint endpoint() const;
  DeviceUuid uuid() const;
  std::uint64_t epoch() const;

  Result<Channel> connect(const Endpoint& peer,
                          std::chrono::nanoseconds timeout = std::chrono::seconds(10));
  Result<Channel> accept(std::chrono::nanoseconds timeout = kForever);

  Result<MemoryRegion> allocate(std::uint64_t bytes, MemoryKind kind = {});
  std::byte* allocate_raw(std::uint64_t bytes);
  // The same, with the reason.
  Result<std::byte*> try_allocate_raw(std::uint64_t bytes);
  void free_raw(std::byte* memory);
  // The same memory, freed with its last owner, on any thread. An owner does not keep the device
  // open, so what peers or the device itself hold may own it.
  Result<std::shared_ptr<std::byte>> allocate_owned(std::uint64_t bytes);
  bool contains(const void* pointer) const;
  bool contains(ByteView memory) const;
  Result<MemoryRegistration> register_memory(MutableByteView memory);
  Result<MemoryRegistration> register_memory(ByteView memory);
  Status publish(std::string_view name, const MemoryRegion& region,
                 std::string_view description = {});
  Status unpublish(std::string_view name);

  DeviceStats stats() const;
  std::string metrics_text() const;

  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<device::DeviceState> state_;
};

}  // namespace farwrite
