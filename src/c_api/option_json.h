// The value of an option as JSON, as a keyword of Python has it.
#pragma once

#include "c_api/json.h"
#include "core/option.h"

namespace farwrite::c_api {

// One value. A secret is null.
void append_value(JsonText& json, core::OptionField field);

}  // namespace farwrite::c_api
