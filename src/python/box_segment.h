// A segment of the parameter box, as the bindings of the client pass it on.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <variant>

#include "farwrite/box.h"

namespace farwrite::python {

// The fields of farwrite.box.SegmentInfo, in its order, and the description's bytes.
nanobind::typed<nanobind::dict, nanobind::str, nanobind::object> to_dict(
    const box::SegmentInfo& info);

// An int or a float of Python: a factor. An int that does not fit would pass as a rounded float, so
// the package refuses it first.
using BoxNumber = std::variant<std::int64_t, double>;

inline box::Factor to_factor(BoxNumber number) {
  return std::visit([](auto held) { return box::Factor(held); }, number);
}

}  // namespace farwrite::python
