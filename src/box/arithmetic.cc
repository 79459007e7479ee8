#include "box/arithmetic.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "box/arithmetic_paths.h"

namespace farwrite::box {
namespace {

const ArithmeticPath& chosen_once() {
  static const ArithmeticPath path = [] {
    const std::vector<ArithmeticPath> paths = arithmetic_paths();
    std::size_t first = 0;
    while (!paths[first].supported) ++first;  // the generic path always is
    return paths[first];
  }();
  return path;
}

std::string written(Factor factor) {
  if (factor.is_whole()) return std::to_string(factor.whole());
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), factor.real()).ptr;
  return std::string(text.data(), end);
}

}  // namespace

std::vector<ArithmeticPath> arithmetic_paths() {
  std::vector<ArithmeticPath> paths;
  append_avx2_path(paths);
  append_generic_path(paths);
  return paths;
}

void accumulate(ElementType type, void* destination, const void* x, Factor factor,
                std::size_t elements) {
  chosen_once().accumulate(type, destination, x, factor, elements);
}

void axpy(ElementType type, void* destination, const void* x, const void* y, Factor factor,
          std::size_t elements) {
  chosen_once().axpy(type, destination, x, y, factor, elements);
}

void scale(ElementType type, void* destination, Factor factor, std::size_t elements) {
  chosen_once().scale(type, destination, factor, elements);
}

void fill(ElementType type, void* destination, Factor value, std::size_t elements) {
  chosen_once().fill(type, destination, value, elements);
}

void swap_bytes(void* a, void* b, std::size_t bytes) { chosen_once().swap_bytes(a, b, bytes); }

Status check_factor(ElementType type, Factor factor) {
  int bits = 0;
  switch (type) {
    case ElementType::kFloat64:
    case ElementType::kFloat32:
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return Status();
    case ElementType::kInt32:
      bits = 32;
      break;
    case ElementType::kInt64:
      bits = 64;
      break;
    case ElementType::kBytes:
      return Status::error(StatusCode::kInvalidArgument, {.operation = "change a segment"},
                           "its elements are bytes, which have no arithmetic",
                           "write the bytes, or create the segment with a numeric type");
  }
  // Exact in both forms: the type holds the whole numbers from -limit to limit - 1.
  const double limit = std::ldexp(1.0, bits - 1);
  const bool held = factor.is_whole()
                        ? bits == 64 || factor.whole() == static_cast<std::int32_t>(factor.whole())
                        : factor.real() >= -limit && factor.real() < limit &&
                              std::trunc(factor.real()) == factor.real();
  if (held) return Status();
  return Status::error(StatusCode::kInvalidArgument, {.operation = "change a segment"},
                       "the factor " + written(factor) + " is not a value of " +
                           std::string(to_string(type)) + ", the type of its elements",
                       type == ElementType::kInt32
                           ? "use a whole number from -2147483648 to 2147483647"
                           : "use a whole number from -2^63 to below 2^63");
}

}  // namespace farwrite::box
