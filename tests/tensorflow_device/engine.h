// Engine: what one device is made of. It works until the process ends, because TensorFlow gives
// tensors back later than it deletes their device.
#pragma once

#include "device_allocator.h"
#include "device_memory.h"
#include "settings.h"
#include "streams.h"

namespace fartest {

struct Engine {
  DeviceMemory memory{settings().memory_bytes};
  DeviceAllocator allocator{&memory};
  Streams* streams = new Streams(settings().seed);
};

}  // namespace fartest
