#include "python/dlpack_type.h"

#include <string_view>

namespace farwrite::python {

namespace nb = nanobind;

std::string text_of(nb::dlpack::dtype type) {
  if (type.lanes != 1 || type.bits % 8 != 0) return {};
  const std::string size = std::to_string(type.bits / 8);
  const std::string order = type.bits == 8 ? "|" : "<";
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Int:
      return order + "i" + size;
    case nb::dlpack::dtype_code::UInt:
      return order + "u" + size;
    case nb::dlpack::dtype_code::Float:
      return order + "f" + size;
    case nb::dlpack::dtype_code::Complex:
      return order + "c" + size;
    case nb::dlpack::dtype_code::Bool:
      return type.bits == 8 ? "|b1" : "";
    case nb::dlpack::dtype_code::Bfloat:
      return type.bits == 16 ? "bfloat16" : "";
    default:
      return {};
  }
}

nb::dlpack::dtype type_of(const std::string& text) {
  constexpr nb::dlpack::dtype_code kCodes[] = {
      nb::dlpack::dtype_code::Int,   nb::dlpack::dtype_code::UInt,
      nb::dlpack::dtype_code::Float, nb::dlpack::dtype_code::Complex,
      nb::dlpack::dtype_code::Bool,  nb::dlpack::dtype_code::Bfloat};
  for (const nb::dlpack::dtype_code code : kCodes) {
    for (const std::uint8_t bits : {8, 16, 32, 64, 128}) {
      const nb::dlpack::dtype type{static_cast<std::uint8_t>(code), bits, 1};
      if (text_of(type) == text) return type;
    }
  }
  throw nb::value_error(
      ("DLPack has no element type " + text + "; view the array as uint8").c_str());
}

}  // namespace farwrite::python
