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

std::string written(double factor) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), factor).ptr;
  return std::string(text.data(), end);
}

}  // namespace

std::vector<ArithmeticPath> arithmetic_paths() {
  std::vector<ArithmeticPath> paths;
  append_avx2_path(paths);
  append_generic_path(paths);
  return paths;
}

void accumulate(ElementType type, void* destination, const void* x, double factor,
                std::size_t elements) {
  chosen_once().accumulate(type, destination, x, factor, elements);
}

void axpy(ElementType type, void* destination, const void* x, const void* y, double factor,
          std::size_t elements) {
  chosen_once().axpy(type, destination, x, y, factor, elements);
}

void scale(ElementType type, void* destination, double factor, std::size_t elements) {
  chosen_once().scale(type, destination, factor, elements);
}

void fill(ElementType type, void* destination, double value, std::size_t elements) {
  chosen_once().fill(type, destination, value, elements);
}

void swap_bytes(void* a, void* b, std::size_t bytes) { chosen_once().swap_bytes(a, b, bytes); }

Status check_factor(ElementType type, double factor) {
  double limit = 0.0;  // the type holds the whole numbers from -limit to limit - 1
  switch (type) {
    case ElementType::kFloat64:
    case ElementType::kFloat32:
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return Status();
    case ElementType::kInt32:
      limit = 0x1p31;
      break;
    case ElementType::kInt64:
      limit = 0x1p63;
      break;
    case ElementType::kBytes:
      return Status::error(StatusCode::kInvalidArgument, {.operation = "change a segment"},
                           "its elements are bytes, which have no arithmetic",
                           "write the bytes, or create the segment with a numeric type");
  }
  if (factor >= -limit && factor < limit && std::trunc(factor) == factor) {
    return Status();
  }
  return Status::error(StatusCode::kInvalidArgument, {.operation = "change a segment"},
                       "the factor " + written(factor) + " is not a value of " +
                           std::string(to_string(type)) + ", the type of its elements",
                       type == ElementType::kInt32
                           ? "use a whole number from -2147483648 to 2147483647"
                           : "use a whole number from -2^63 to below 2^63");
}

}  // namespace farwrite::box
