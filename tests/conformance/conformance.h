// The fixture of the conformance suite: one text, every fabric.
//
// A test uses only what the public interface has and must hold on every fabric, so it states the
// contract. It is compiled twice: with the library's classes, and in the suite `interface` as a
// program compiles them (interface.h). Time is
// never measured; kHang bounds what would otherwise hang.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "conformance/interface.h"
#if defined(FARWRITE_LIBRARY)
#include "simulated/simulated_kind.h"
#include "simulated/simulated_network.h"
#endif

namespace farwrite {

inline constexpr std::chrono::seconds kHang{30};

// EXPECT_OK(call) shows the error's sentence.
testing::AssertionResult is_ok(const Status& status);
template <typename T>
testing::AssertionResult is_ok(const Result<T>& result) {
  return is_ok(result.status());
}
#define EXPECT_OK(call) EXPECT_TRUE(::farwrite::is_ok(call))
#define ASSERT_OK(call) ASSERT_TRUE(::farwrite::is_ok(call))
#define EXPECT_CODE(expected, status)                                \
  EXPECT_EQ(::farwrite::to_string(::farwrite::StatusCode::expected), \
            ::farwrite::to_string((status).code()))                  \
      << (status).to_string()

// A fabric, how wide its channels are, and whether they are encrypted.
struct Variant {
  FabricKind fabric = FabricKind::kShm;
  std::uint32_t lanes = 1;
  std::uint32_t pollers = 1;
  bool encrypted = false;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant);
std::string variant_name(const testing::TestParamInfo<Variant>& info);

// A channel as its two ends see it: `near` connected, `far` accepted.
struct ChannelPair {
  Channel near, far;
};

class VerbsUnderTest;  // the software adapter (verbs_double/software_rnic.h)

class Conformance : public testing::TestWithParam<Variant> {
 protected:
  // The seed of a simulated network is FARWRITE_ADVERSARY_SEED, or 1.
  Conformance();
  ~Conformance() override;
  // Skips what needs encryption where OpenSSL is missing.
  void SetUp() override;

  // Small limits and segments, so that a test with many devices stays cheap.
  DeviceOptions options();
  Device open(const DeviceOptions& options);
  Device open() { return open(options()); }
  ChannelPair connect(Device& from, Device& to);

  std::uint32_t lanes() const { return GetParam().lanes; }
#if defined(FARWRITE_LIBRARY)
  fabric::SimulatedNetwork& network() { return network_; }

 private:
  fabric::SimulatedNetwork network_;
  const fabric::FabricRegistration simulated_{fabric::simulated_entry(network_)};
  std::unique_ptr<VerbsUnderTest> verbs_;
#endif
};

// Two devices and one channel, there before the test begins.
class ConformancePair : public Conformance {
 protected:
  // Closes both devices: a lease that holds a handle must not keep one alive behind the software
  // adapter's back.
  ~ConformancePair() override;
  void SetUp() override;

  // Memory at the far end that the near end may write, and the near end's view of it.
  void land(std::uint64_t bytes);
  // Memory of the far device, filled with `bytes`, that the near end may read.
  void show(const std::vector<std::byte>& bytes);

  Device near_device_, far_device_;
  Channel near_, far_;
  MemoryRegion landing_, shown_;  // at the far end
  RemoteRegion target_, source_;  // the near end's views of them
};

// Bytes that differ with `seed` and along the way, none of them 0.
std::vector<std::byte> make_bytes(std::size_t count, std::uint32_t seed);
// Whether `data` holds make_bytes(count, seed).
bool holds(const std::byte* data, std::size_t count, std::uint32_t seed);
// The outcome, once no byte moves any more: only then may memory go that was passed in.
Status wait_until_settled(const Completion& completion);
// Asks until true; false when kHang has passed.
bool eventually(const std::function<bool()>& condition);

// The suite `interface` runs shm and tcp, on the C ABI. This suite runs the fabrics that only the
// library can be given: the simulated one, and verbs over the software adapter.
#if defined(FARWRITE_LIBRARY)
#define FARWRITE_EVERY_FABRIC(fixture)                                              \
  INSTANTIATE_TEST_SUITE_P(                                                         \
      EveryFabric, fixture,                                                         \
      ::testing::Values(::farwrite::Variant{::farwrite::fabric::kSimulated, 1, 1},  \
                        ::farwrite::Variant{::farwrite::fabric::kSimulated, 4, 2}), \
      ::farwrite::variant_name);                                                    \
  FARWRITE_VERBS_TOO(fixture)
#else
#define FARWRITE_EVERY_FABRIC(fixture) FARWRITE_FABRICS_OF_PROGRAMS(EveryFabric, fixture)
#endif

// With shm and tcp, for tests that use the library's internals and so are not in the suite
// `interface`.
#define FARWRITE_EVERY_FABRIC_INSIDE(fixture)       \
  FARWRITE_FABRICS_OF_PROGRAMS(ShmAndTcp, fixture); \
  FARWRITE_EVERY_FABRIC(fixture)

#define FARWRITE_FABRICS_OF_PROGRAMS(name, fixture)                               \
  INSTANTIATE_TEST_SUITE_P(                                                       \
      name, fixture,                                                              \
      ::testing::Values(::farwrite::Variant{::farwrite::FabricKind::kShm, 1, 1},  \
                        ::farwrite::Variant{::farwrite::FabricKind::kShm, 4, 2},  \
                        ::farwrite::Variant{::farwrite::FabricKind::kTcp, 1, 1},  \
                        ::farwrite::Variant{::farwrite::FabricKind::kTcp, 4, 2}), \
      ::farwrite::variant_name)

// Over the software adapter, or over the machine's own if FARWRITE_TEST_VERBS is "real".
#ifdef FARWRITE_HAVE_VERBS
#define FARWRITE_VERBS_TOO(fixture)                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                         \
      Verbs, fixture,                                                               \
      ::testing::Values(::farwrite::Variant{::farwrite::FabricKind::kVerbs, 1, 1},  \
                        ::farwrite::Variant{::farwrite::FabricKind::kVerbs, 4, 2}), \
      ::farwrite::variant_name)
#else
#define FARWRITE_VERBS_TOO(fixture) static_assert(true)
#endif

// The same over encrypted tcp, for what moves bytes.
#define FARWRITE_ENCRYPTED_TOO(fixture)                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                             \
      Encrypted, fixture,                                                               \
      ::testing::Values(::farwrite::Variant{::farwrite::FabricKind::kTcp, 2, 1, true}), \
      ::farwrite::variant_name)

}  // namespace farwrite
