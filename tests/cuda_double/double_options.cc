#include "double_options.h"

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "driver_api.h"

namespace farwrite::cuda_double {
namespace {

// Leaves `value` as it is if the variable is not set.
bool read_number(const char* name, unsigned long long most, unsigned long long* value,
                 std::string* problem) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return true;
  char* end = nullptr;
  errno = 0;
  const unsigned long long read = std::strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && read <= most) {
    *value = read;
    return true;
  }
  *problem = std::string(name) + "=" + text + ": give a number from 0 to " + std::to_string(most);
  return false;
}

bool read_attributes(std::map<int, int>* attributes, std::string* problem) {
  const char* text = std::getenv("CUDA_DOUBLE_ATTRIBUTES");
  if (text == nullptr) return true;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');) {
    int attribute = 0;
    int value = 0;
    char equals = 0;
    std::istringstream fields(one);
    if (!(fields >> attribute >> equals >> value) || equals != '=' || !fields.eof()) {
      *problem = "CUDA_DOUBLE_ATTRIBUTES: \"" + one + "\" is not NUMBER=VALUE";
      return false;
    }
    (*attributes)[attribute] = value;
  }
  return true;
}

}  // namespace

bool DoubleOptions::supports(int attribute) const {
  const auto at = attributes.find(attribute);
  return at != attributes.end() && at->second != 0;
}

bool read_options(DoubleOptions* options, std::string* problem) {
  unsigned long long gpus = static_cast<unsigned long long>(options->gpus);
  unsigned long long bytes = options->bytes;
  unsigned long long version = static_cast<unsigned long long>(options->version);
  unsigned long long dma_buf = 0;
  unsigned long long delay = 0;
  constexpr unsigned long long kMostInt = std::numeric_limits<int>::max();
  if (!read_number("CUDA_DOUBLE_GPUS", kMostGpus, &gpus, problem) ||
      !read_number("CUDA_DOUBLE_BYTES", std::numeric_limits<unsigned long long>::max(), &bytes,
                   problem) ||
      !read_number("CUDA_DOUBLE_VERSION", kMostInt, &version, problem) ||
      !read_number("CUDA_DOUBLE_DMA_BUF", 1, &dma_buf, problem) ||
      !read_number("CUDA_DOUBLE_DELAY_US", kMostInt, &delay, problem)) {
    return false;
  }
  options->gpus = static_cast<int>(gpus);
  options->bytes = bytes;
  options->version = static_cast<int>(version);
  options->delay = std::chrono::microseconds(delay);
  options->attributes = {
      {kUnifiedAddressing, 1},
      {kComputeCapabilityMajor, 9},
      {kComputeCapabilityMinor, 0},
      {kHostPointerForRegistered, 1},
      {kHostRegisterSupported, 1},
      {kVirtualMemorySupported, 1},
      {kPosixHandleSupported, 1},
      {kReadOnlyHostRegisterSupported, 1},
      {kGpuDirectRdmaWithVirtualMemory, static_cast<int>(dma_buf)},
      {kGpuDirectRdmaSupported, static_cast<int>(dma_buf)},
      {kDmaBufSupported, static_cast<int>(dma_buf)},
  };
  const char* faults = std::getenv("CUDA_DOUBLE_FAIL");
  options->faults = faults == nullptr ? "" : faults;
  return read_attributes(&options->attributes, problem);
}

}  // namespace farwrite::cuda_double
