// Element types of DLPack, as farwrite.memory.description writes them: "<f4", "bfloat16".
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

namespace farwrite::python {

// Empty for a type that has no such text.
std::string text_of(nanobind::dlpack::dtype type);
// Raises ValueError for a text that DLPack has no type for.
nanobind::dlpack::dtype type_of(const std::string& text);

}  // namespace farwrite::python
