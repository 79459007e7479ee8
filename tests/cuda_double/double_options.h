// DoubleOptions: the GPUs that the environment describes.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace farwrite::cuda_double {

inline constexpr std::size_t kMostGpus = 64;

struct DoubleOptions {
  int gpus = 1;
  std::size_t bytes = std::size_t{1} << 30;
  int version = 13000;
  std::chrono::microseconds delay{0};
  std::map<int, int> attributes;  // of every GPU, CUDA_DOUBLE_DMA_BUF among them
  std::string faults;

  // True, or the attribute is off.
  bool supports(int attribute) const;
};

// False with a sentence in `problem` if a variable cannot be read.
bool read_options(DoubleOptions* options, std::string* problem);

}  // namespace farwrite::cuda_double
