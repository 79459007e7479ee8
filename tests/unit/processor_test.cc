#include "core/processor.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace farwrite::core {
namespace {

// What the kernel lists of the first processor.
std::set<std::string> listed() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(Processor, HasTheFeaturesThatTheKernelLists) {
  const std::set<std::string> flags = listed();
  const ProcessorFeatures& has = processor_features();
  EXPECT_EQ(has.sse42, flags.contains("sse4_2"));
  EXPECT_EQ(has.avx2, flags.contains("avx2"));
  EXPECT_EQ(has.f16c, flags.contains("f16c"));
  EXPECT_EQ(has.avx512f, flags.contains("avx512f"));
  EXPECT_EQ(has.clflushopt, flags.contains("clflushopt"));
}

TEST(Processor, HasTheMakerThatTheKernelNames) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(processor_features().amd, text.find("AuthenticAMD") != std::string::npos);
}

}  // namespace
}  // namespace farwrite::core
