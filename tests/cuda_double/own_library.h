// The shared library that this code is in.
#pragma once

#include <string>

namespace farwrite::cuda_double {

// Keeps the library in memory after dlclose(), because its thread runs until the process ends.
void stay_loaded();

// Whether the library has this function of the driver.
bool is_driver_function(const std::string& name);

}  // namespace farwrite::cuda_double
