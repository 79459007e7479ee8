// Element types of DLPack, as farwrite.description writes them: "<f4", "bfloat16".
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace farwrite::python {

// Empty for a type that has no such text.
std::string text_of(nanobind::dlpack::dtype type);
// Raises ValueError for a text that DLPack has no type for.
nanobind::dlpack::dtype type_of(const std::string& text);

template <typename Array>
bool is_contiguous(const Array& array) {
  std::int64_t step = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    const auto length = static_cast<std::int64_t>(array.shape(i));
    if (length == 0) return true;
    if (length != 1 && array.stride(i) != step) return false;
    step *= length;
  }
  return true;
}

}  // namespace farwrite::python
