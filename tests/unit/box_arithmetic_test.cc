#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "box/arithmetic.h"
#include "box/arithmetic_paths.h"

namespace farwrite::box {
namespace {

// The 16-bit formats by the book: a value is sign * significand * 2^exponent, and of the two
// neighbours of a number the nearer one is its rounding, the even one if both are as near.
template <int kExponentBits>
struct Small {
  static constexpr int kDigits = 15 - kExponentBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint16_t kInfinity = ((1 << kExponentBits) - 1) << kDigits;

  static float value(std::uint16_t bits) {
    const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
    const int exponent = (bits & kInfinity) >> kDigits;
    const int fraction = bits & ((1 << kDigits) - 1);
    if ((bits & kInfinity) == kInfinity) {
      return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : std::nanf("");
    }
    const int significand = exponent == 0 ? fraction : fraction + (1 << kDigits);
    return std::ldexp(sign * static_cast<float>(significand),
                      std::max(exponent, 1) - kBias - kDigits);
  }

  static std::uint16_t rounded(float number) {
    const std::uint16_t sign = std::signbit(number) ? 0x8000 : 0;
    if (std::isnan(number)) return kInfinity | 1;
    const double magnitude = std::fabs(static_cast<double>(number));
    // Positive values are in the order of their bits: find the last that is not above.
    std::uint16_t below = 0;
    for (std::uint16_t bit = 0x4000; bit != 0; bit >>= 1) {
      const std::uint16_t tried = below | bit;
      if (tried <= kInfinity && static_cast<double>(value(tried)) <= magnitude) below = tried;
    }
    if (below == kInfinity) return sign | below;
    const double low = value(below);
    // Infinity takes the place of the next power of two.
    const double high =
        below + 1 == kInfinity ? std::ldexp(1.0, kBias + 1) : static_cast<double>(value(below + 1));
    const double to_low = magnitude - low;
    const double to_high = high - magnitude;
    const bool up = to_high < to_low || (to_high == to_low && (below & 1) != 0);
    return sign | static_cast<std::uint16_t>(below + (up ? 1 : 0));
  }
};

// The reference for one element of each type: one operation after the other, in plain C++.
template <typename Number>
struct Real {
  using Memory = Number;
  static Number in(double factor) { return static_cast<Number>(factor); }
  static Number load(Memory stored) { return stored; }
  static Memory store(Number value) { return value; }
  static bool same(Memory one, Memory other) {
    return (std::isnan(one) && std::isnan(other)) || std::memcmp(&one, &other, sizeof(one)) == 0;
  }
};
template <typename Number>
struct Whole {
  using Memory = Number;
  static Number in(double factor) { return static_cast<Number>(static_cast<std::int64_t>(factor)); }
  static Number load(Memory stored) { return stored; }
  static Memory store(Number value) { return value; }
  static bool same(Memory one, Memory other) { return one == other; }
};
template <typename Format>
struct Half {
  using Memory = std::uint16_t;
  static float in(double factor) { return static_cast<float>(factor); }
  static float load(Memory stored) { return Format::value(stored); }
  static Memory store(float value) { return Format::rounded(value); }
  static bool same(Memory one, Memory other) {
    return one == other || (std::isnan(Format::value(one)) && std::isnan(Format::value(other)));
  }
};

using Binary16 = Small<5>;
using Brain16 = Small<8>;

// Rounded before anything is added to it, whatever the compiler would rather do.
template <typename Number>
Number product(Number one, Number other) {
  const volatile Number rounded = one * other;
  return rounded;
}

// Calls `check` with the reference of the type.
template <typename Check>
void with_reference(ElementType type, const Check& check) {
  switch (type) {
    case ElementType::kFloat64:
      return check(Real<double>());
    case ElementType::kFloat32:
      return check(Real<float>());
    case ElementType::kFloat16:
      return check(Half<Binary16>());
    case ElementType::kBFloat16:
      return check(Half<Brain16>());
    case ElementType::kInt32:
      return check(Whole<std::uint32_t>());
    case ElementType::kInt64:
      return check(Whole<std::uint64_t>());
    case ElementType::kBytes:
      FAIL() << "bytes have no arithmetic";
  }
}

constexpr std::size_t kLine = 64;
constexpr std::byte kUntouched{0xa5};

// Elements at a chosen distance from a 64-byte boundary, between bytes that must stay untouched.
template <typename Memory>
class Buffer {
 public:
  Buffer(std::size_t elements, std::size_t offset)
      : elements_(elements), bytes_((elements + offset) * sizeof(Memory) + 3 * kLine, kUntouched) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    begin_ = bytes_.data() + (kLine - address % kLine) + offset * sizeof(Memory);
  }
  void set(const std::vector<Memory>& values) {
    if (elements_ != 0) std::memcpy(begin_, values.data(), elements_ * sizeof(Memory));
  }
  std::vector<Memory> get() const {
    std::vector<Memory> values(elements_);
    if (elements_ != 0) std::memcpy(values.data(), begin_, elements_ * sizeof(Memory));
    return values;
  }
  bool wrote_outside() const {
    const auto written = [](std::byte b) { return b != kUntouched; };
    const std::byte* const first = bytes_.data();
    const std::byte* const end = begin_ + elements_ * sizeof(Memory);
    return std::any_of(first, static_cast<const std::byte*>(begin_), written) ||
           std::any_of(end, first + bytes_.size(), written);
  }
  void* data() { return begin_; }

 private:
  std::size_t elements_;
  std::vector<std::byte> bytes_;
  std::byte* begin_;
};

// Any bits: numbers of every size, subnormal ones, infinities and NaNs.
template <typename Memory>
std::vector<Memory> any_bits(std::size_t elements, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Memory> values(elements);
  for (Memory& value : values) {
    const std::uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof(value));
  }
  return values;
}

template <typename Reference, typename Memory>
::testing::AssertionResult all_same(const std::vector<Memory>& got,
                                    const std::vector<Memory>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!Reference::same(got[i], expected[i])) {
      return ::testing::AssertionFailure() << "element " << i << " of " << expected.size() << " is "
                                           << got[i] << ", not " << expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Checks every operation of a path on one length and one set of alignments.
template <typename Reference>
void check_operations(const ArithmeticPath& path, ElementType type, double factor,
                      std::size_t elements, std::size_t offset, std::size_t x_offset) {
  using Memory = typename Reference::Memory;
  const auto before = any_bits<Memory>(elements, 1);
  const auto of_x = any_bits<Memory>(elements, 2);
  const auto of_y = any_bits<Memory>(elements, 3);
  const auto a = Reference::in(factor);
  Buffer<Memory> destination(elements, offset);
  Buffer<Memory> x(elements, x_offset);
  Buffer<Memory> y(elements, (offset + x_offset) % 5);
  x.set(of_x);
  y.set(of_y);
  const auto expect = [&](const char* operation, const auto& element) {
    std::vector<Memory> expected(elements);
    for (std::size_t i = 0; i < elements; ++i) expected[i] = Reference::store(element(i));
    EXPECT_TRUE(all_same<Reference>(destination.get(), expected)) << operation;
    EXPECT_FALSE(destination.wrote_outside()) << operation;
  };
  const auto d = [&](std::size_t i) { return Reference::load(before[i]); };
  const auto xs = [&](std::size_t i) { return Reference::load(of_x[i]); };
  const auto ys = [&](std::size_t i) { return Reference::load(of_y[i]); };

  destination.set(before);
  path.accumulate(type, destination.data(), x.data(), factor, elements);
  expect("accumulate", [&](std::size_t i) { return d(i) + product(a, xs(i)); });

  destination.set(before);
  path.accumulate(type, destination.data(), destination.data(), factor, elements);
  expect("accumulate of itself", [&](std::size_t i) { return d(i) + product(a, d(i)); });

  destination.set(before);
  path.axpy(type, destination.data(), x.data(), y.data(), factor, elements);
  expect("axpy", [&](std::size_t i) { return product(a, xs(i)) + ys(i); });

  destination.set(before);
  path.axpy(type, destination.data(), destination.data(), y.data(), factor, elements);
  expect("axpy over x", [&](std::size_t i) { return product(a, d(i)) + ys(i); });

  destination.set(before);
  path.axpy(type, destination.data(), x.data(), destination.data(), factor, elements);
  expect("axpy over y", [&](std::size_t i) { return product(a, xs(i)) + d(i); });

  destination.set(before);
  path.scale(type, destination.data(), factor, elements);
  expect("scale", [&](std::size_t i) { return product(d(i), a); });

  destination.set(before);
  path.fill(type, destination.data(), factor, elements);
  expect("fill", [&](std::size_t) { return a; });

  if (elements == 0) return;  // memcmp() takes no null pointer
  EXPECT_EQ(std::memcmp(x.get().data(), of_x.data(), elements * sizeof(Memory)), 0);
  EXPECT_EQ(std::memcmp(y.get().data(), of_y.data(), elements * sizeof(Memory)), 0);
}

std::vector<ArithmeticPath> supported_paths() {
  std::vector<ArithmeticPath> paths = arithmetic_paths();
  std::erase_if(paths, [](const ArithmeticPath& path) { return !path.supported; });
  return paths;
}

using PathAndType = std::tuple<ArithmeticPath, ElementType>;

class EveryArithmeticPath : public ::testing::TestWithParam<PathAndType> {
 protected:
  const ArithmeticPath& path() const { return std::get<0>(GetParam()); }
  ElementType type() const { return std::get<1>(GetParam()); }
  bool whole() const { return type() == ElementType::kInt32 || type() == ElementType::kInt64; }
  double factor() const { return whole() ? -3.0 : 0.3; }
};

TEST_P(EveryArithmeticPath, IsExactForEveryShortLengthAndAlignment) {
  with_reference(type(), [&](auto reference) {
    constexpr std::size_t kOfALine = kLine / sizeof(typename decltype(reference)::Memory);
    for (std::size_t elements = 0; elements <= 2 * kOfALine + 1; ++elements) {
      for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, kOfALine - 1}) {
        for (const std::size_t x_offset : {0, 1, 3}) {
          SCOPED_TRACE(testing::Message() << elements << " elements, destination + " << offset
                                          << ", x + " << x_offset);
          check_operations<decltype(reference)>(path(), type(), factor(), elements, offset,
                                                x_offset);
          if (HasFailure()) return;
        }
      }
    }
  });
}

// Long enough for several streams of pages, and for stores past the cache.
TEST_P(EveryArithmeticPath, IsExactForLargeOperations) {
  with_reference(type(), [&](auto reference) {
    constexpr std::size_t kSize = sizeof(typename decltype(reference)::Memory);
    for (const std::size_t bytes : {5 * 4096, 4 * 5120 + 72, 3 * 4 * 5120 - 8, (320 << 10) + 88}) {
      check_operations<decltype(reference)>(path(), type(), factor(), bytes / kSize, 0, 0);
      check_operations<decltype(reference)>(path(), type(), factor(), bytes / kSize - 1, 3, 1);
    }
  });
}

TEST_P(EveryArithmeticPath, IsExactForSpecialFactors) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> factors =
      whole() ? std::vector<double>{0, 1, -1, 2147483647, -2147483648.0}
              : std::vector<double>{0.0, -0.0, 1.0, -1.0, 1e-40, 1e300, infinity, std::nan("")};
  for (const double special : factors) {
    SCOPED_TRACE(special);
    with_reference(type(), [&](auto reference) {
      check_operations<decltype(reference)>(path(), type(), special, 999, 1, 0);
    });
  }
}

std::vector<PathAndType> paths_and_types() {
  std::vector<PathAndType> all;
  for (const ArithmeticPath& path : supported_paths()) {
    for (const ElementType type :
         {ElementType::kFloat64, ElementType::kFloat32, ElementType::kFloat16,
          ElementType::kBFloat16, ElementType::kInt32, ElementType::kInt64}) {
      all.emplace_back(path, type);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Paths, EveryArithmeticPath, ::testing::ValuesIn(paths_and_types()),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "_" +
                                  std::string(to_string(std::get<1>(tested.param)));
                         });

class EveryPath : public ::testing::TestWithParam<ArithmeticPath> {
 protected:
  // All values of a 16-bit type, each plus and times something.
  template <typename Format>
  void check_all_values(ElementType type) {
    using Reference = Half<Format>;
    std::vector<std::uint16_t> values(65536);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
    std::vector<std::uint16_t> kept = values;
    GetParam().scale(type, kept.data(), 1.0, kept.size());
    EXPECT_TRUE(all_same<Reference>(kept, values));
    // Factors that round at each digit, that lead into subnormal numbers, and out of the range.
    for (const double factor : {1.0009765625, 0.5, 0.7071, 0x1p-14, 0x1.8p-20, 3.0, 0x1p12}) {
      std::vector<std::uint16_t> scaled = values;
      std::vector<std::uint16_t> expected(values.size());
      GetParam().scale(type, scaled.data(), factor, scaled.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        expected[i] = Format::rounded(Format::value(values[i]) * static_cast<float>(factor));
      }
      EXPECT_TRUE(all_same<Reference>(scaled, expected)) << "times " << factor;
    }
  }
};

TEST_P(EveryPath, ConvertsAllFloat16Values) { check_all_values<Binary16>(ElementType::kFloat16); }

TEST_P(EveryPath, ConvertsAllBFloat16Values) { check_all_values<Brain16>(ElementType::kBFloat16); }

TEST_P(EveryPath, WrapsIntegersAround) {
  std::vector<std::int32_t> narrow(20, std::numeric_limits<std::int32_t>::max());
  const std::vector<std::int32_t> ones(20, 1);
  GetParam().accumulate(ElementType::kInt32, narrow.data(), ones.data(), 1.0, narrow.size());
  EXPECT_EQ(narrow, std::vector<std::int32_t>(20, std::numeric_limits<std::int32_t>::min()));
  GetParam().scale(ElementType::kInt32, narrow.data(), -1.0, narrow.size());
  EXPECT_EQ(narrow, std::vector<std::int32_t>(20, std::numeric_limits<std::int32_t>::min()));

  std::vector<std::int64_t> wide(11, std::numeric_limits<std::int64_t>::max());
  GetParam().scale(ElementType::kInt64, wide.data(), 2.0, wide.size());
  EXPECT_EQ(wide, std::vector<std::int64_t>(11, -2));
  GetParam().fill(ElementType::kInt64, wide.data(), -0x1p63, wide.size());
  EXPECT_EQ(wide, std::vector<std::int64_t>(11, std::numeric_limits<std::int64_t>::min()));
}

TEST_P(EveryPath, SwapsBytesOfAnyLengthAndAlignment) {
  for (const std::size_t bytes : {0, 1, 2, 63, 64, 65, 200, 4 * 5120, 9 * 5120 + 77}) {
    for (const std::size_t offset : {0, 1, 17}) {
      const auto of_a = any_bits<std::uint8_t>(bytes, 4);
      const auto of_b = any_bits<std::uint8_t>(bytes, 5);
      Buffer<std::uint8_t> a(bytes, offset);
      Buffer<std::uint8_t> b(bytes, 3);
      a.set(of_a);
      b.set(of_b);
      GetParam().swap_bytes(a.data(), b.data(), bytes);
      ASSERT_EQ(a.get(), of_b) << bytes << " bytes at " << offset;
      ASSERT_EQ(b.get(), of_a) << bytes << " bytes at " << offset;
      ASSERT_FALSE(a.wrote_outside() || b.wrote_outside()) << bytes << " bytes at " << offset;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, EveryPath, ::testing::ValuesIn(supported_paths()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(EveryArithmeticPath, UsesEveryBitOfAFactor) {
  if (type() == ElementType::kInt64) {
    constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
    std::vector<std::int64_t> destination(9, 1);
    const std::vector<std::int64_t> x(9, 3);
    path().accumulate(type(), destination.data(), x.data(), kOdd, 9);
    EXPECT_EQ(destination, std::vector<std::int64_t>(9, 1 + 3 * kOdd));
    path().axpy(type(), destination.data(), x.data(), x.data(), kOdd, 9);
    EXPECT_EQ(destination, std::vector<std::int64_t>(9, 3 + 3 * kOdd));
    destination.assign(9, -1);
    path().scale(type(), destination.data(), kOdd, 9);
    EXPECT_EQ(destination, std::vector<std::int64_t>(9, -kOdd));
    path().fill(type(), destination.data(), std::numeric_limits<std::int64_t>::max(), 9);
    EXPECT_EQ(destination, std::vector<std::int64_t>(9, std::numeric_limits<std::int64_t>::max()));
  } else if (type() == ElementType::kFloat64) {
    std::vector<double> destination(9, 1.0);
    path().fill(type(), destination.data(), -0.0, 9);
    for (const double each : destination) EXPECT_TRUE(each == 0.0 && std::signbit(each));
  }
}

TEST(Arithmetic, IsTheSameByTheChosenPath) {
  std::vector<float> destination = {1.0F, 2.0F, 3.0F};
  std::vector<float> other = {10.0F, 20.0F, 30.0F};
  accumulate(ElementType::kFloat32, destination.data(), other.data(), 0.5, 3);
  EXPECT_EQ(destination, (std::vector<float>{6.0F, 12.0F, 18.0F}));
  axpy(ElementType::kFloat32, destination.data(), other.data(), destination.data(), 2.0, 3);
  EXPECT_EQ(destination, (std::vector<float>{26.0F, 52.0F, 78.0F}));
  scale(ElementType::kFloat32, destination.data(), 0.5, 3);
  EXPECT_EQ(destination, (std::vector<float>{13.0F, 26.0F, 39.0F}));
  swap_bytes(destination.data(), other.data(), 3 * sizeof(float));
  EXPECT_EQ(destination, (std::vector<float>{10.0F, 20.0F, 30.0F}));
  EXPECT_EQ(other, (std::vector<float>{13.0F, 26.0F, 39.0F}));
  fill(ElementType::kFloat32, destination.data(), 7.0, 3);
  EXPECT_EQ(destination, (std::vector<float>{7.0F, 7.0F, 7.0F}));
}

TEST(CheckFactor, TakesAnyNumberForRealTypes) {
  for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat32,
                                 ElementType::kFloat16, ElementType::kBFloat16}) {
    for (const double factor : {0.0, -0.25, 1e300, std::nan("")}) {
      EXPECT_TRUE(check_factor(type, factor).ok()) << to_string(type) << " " << factor;
    }
  }
}

TEST(CheckFactor, TakesEveryValueOfAnIntegerTypeAndNoOtherNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double factor : {0.0, -1.0, 2147483647.0, -2147483648.0}) {
    EXPECT_TRUE(check_factor(ElementType::kInt32, factor).ok()) << factor;
    EXPECT_TRUE(check_factor(ElementType::kInt64, factor).ok()) << factor;
  }
  EXPECT_TRUE(check_factor(ElementType::kInt64, 2147483648.0).ok());
  EXPECT_TRUE(check_factor(ElementType::kInt64, -0x1p63).ok());
  for (const double factor : {0.5, -1.5, 0x1p63, -0x1.1p63, infinity, -infinity, std::nan("")}) {
    for (const ElementType type : {ElementType::kInt32, ElementType::kInt64}) {
      EXPECT_EQ(check_factor(type, factor).code(), StatusCode::kInvalidArgument)
          << to_string(type) << " " << factor;
    }
  }
  for (const double factor : {2147483648.0, -2147483649.0}) {
    EXPECT_EQ(check_factor(ElementType::kInt32, factor).code(), StatusCode::kInvalidArgument);
  }
}

TEST(CheckFactor, TakesWholeNumbersAsTheyAre) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t factor : {kLowest, (std::int64_t{1} << 53) + 1, kHighest}) {
    EXPECT_TRUE(check_factor(ElementType::kInt64, factor).ok()) << factor;
    EXPECT_FALSE(check_factor(ElementType::kInt32, factor).ok()) << factor;
  }
  EXPECT_FALSE(check_factor(ElementType::kInt64, std::uint64_t{1} << 63).ok());
  EXPECT_TRUE(check_factor(ElementType::kInt32, -2147483647 - 1).ok());
  EXPECT_EQ(check_factor(ElementType::kInt32, std::uint32_t{1} << 31).message(),
            "change a segment: the factor 2147483648 is not a value of int32, the type of its "
            "elements; use a whole number from -2147483648 to 2147483647");
}

TEST(AddScaled, RefusesWhatTheServerRefusesAndAddsNothing) {
  std::int32_t destination = 5;
  const std::int32_t source = 1;
  const auto refuses = [&](ElementType type, Factor factor) {
    return add_scaled(type, &destination, &source, factor, 1).code() ==
           StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses(ElementType::kInt32, 0x1p31));
  EXPECT_TRUE(refuses(ElementType::kInt32, std::int64_t{1} << 31));
  EXPECT_TRUE(refuses(ElementType::kInt32, 0.5));
  EXPECT_TRUE(refuses(ElementType::kInt32, std::nan("")));
  EXPECT_TRUE(refuses(ElementType::kInt64, 1e300));
  EXPECT_TRUE(refuses(ElementType::kBytes, 1));
  EXPECT_EQ(destination, 5);
  EXPECT_TRUE(add_scaled(ElementType::kInt32, &destination, &source, -0x1p31, 1).ok());
  EXPECT_EQ(destination, 5 + std::numeric_limits<std::int32_t>::min());
}

TEST(CheckFactor, NamesTheNumberTheTypeAndTheRemedy) {
  EXPECT_EQ(check_factor(ElementType::kInt32, 0.5).message(),
            "change a segment: the factor 0.5 is not a value of int32, the type of its elements; "
            "use a whole number from -2147483648 to 2147483647");
  EXPECT_EQ(check_factor(ElementType::kInt64, 1e300).message(),
            "change a segment: the factor 1e+300 is not a value of int64, the type of its "
            "elements; use a whole number from -2^63 to below 2^63");
}

TEST(CheckFactor, RefusesBytesWhichHaveNoArithmetic) {
  const Status status = check_factor(ElementType::kBytes, 1.0);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "change a segment: its elements are bytes, which have no arithmetic; write the bytes, "
            "or create the segment with a numeric type");
}

}  // namespace
}  // namespace farwrite::box
