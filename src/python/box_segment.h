// A segment of the parameter box, as the bindings of the client pass it on.
#pragma once

#include <nanobind/nanobind.h>

#include "farwrite/box.h"

namespace farwrite::python {

// The fields of farwrite.box.SegmentInfo, in its order, and the description's bytes.
nanobind::typed<nanobind::dict, nanobind::str, nanobind::object> to_dict(
    const box::SegmentInfo& info);

}  // namespace farwrite::python
