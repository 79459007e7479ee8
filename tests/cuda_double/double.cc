#include "double.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "entry.h"
#include "own_library.h"

namespace farwrite::cuda_double {
namespace {

std::atomic<pid_t> owner{0};  // the process that called cuInit()

Double* make_double() {
  stay_loaded();
  auto* made = new Double;
  made->read_environment();
  return made;
}

}  // namespace

bool is_forked_child() {
  const pid_t known = owner;
  return known != 0 && known != ::getpid();
}

void own_gpus() { owner = ::getpid(); }

void disown_gpus() { owner = 0; }

void Double::read_environment() {
  DoubleOptions read;
  std::string problem;
  options_good = read_options(&read, &problem) && faults.set(read.faults, &problem);
  if (!options_good) {
    std::fprintf(stderr, "libcuda_double.so: %s\n", problem.c_str());
    read = {};
  }
  options = read;
  while (contexts.size() < static_cast<std::size_t>(options.gpus)) {
    contexts.push_back(std::make_unique<Context>(static_cast<CUdevice>(contexts.size())));
    contexts.back()->legacy = std::make_shared<Stream>(*contexts.back(), true);
  }
  engine.set_delay(options.delay);
}

Double& the_double() {
  static Double& only = *make_double();
  return only;
}

}  // namespace farwrite::cuda_double
