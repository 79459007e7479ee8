// A segment's description, as C sees it.
#pragma once

#include "box/box.h"
#include "farwrite/c_box.h"

namespace farwrite::c_api {

// With the texts of `spec`.
fw_segment_spec to_spec(const box::SegmentSpec& spec);
fw_segment_info to_info(const box::SegmentInfo& info, const fw_segment_spec* spec);

}  // namespace farwrite::c_api
