// Double: everything behind the driver's functions in one process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "context.h"
#include "device_memory.h"
#include "double_options.h"
#include "engine.h"
#include "faults.h"
#include "host_registrations.h"
#include "stream.h"

namespace farwrite::cuda_double {

// One lock for all of it: what is tested is the caller, not the double's speed. Bytes move outside.
struct Double {
  std::mutex lock;
  Engine engine{lock};

  // The rest is under `lock`.
  DoubleOptions options;
  bool options_good = false;
  bool initialized = false;
  Faults faults;
  std::vector<std::unique_ptr<Context>> contexts;  // of each GPU there ever was; never shrinks
  DeviceMemory memory;
  HostRegistrations registrations;
  std::map<Stream*, std::shared_ptr<Stream>> streams;  // that the caller created
  std::map<Event*, std::unique_ptr<Event>> events;

  // Null if there is no such GPU.
  Context* context_of(CUdevice device) {
    if (device < 0 || device >= options.gpus) return nullptr;
    return contexts[static_cast<std::size_t>(device)].get();
  }
  // From the environment. What cannot be read is printed, and cuInit() fails.
  void read_environment();
};

// Lives as long as the process: the engine's thread uses it until the end.
Double& the_double();

}  // namespace farwrite::cuda_double
