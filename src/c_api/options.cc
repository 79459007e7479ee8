// The C ABI: options of the TensorFlow plug-in.
#include <string_view>

#include "c_api/handles.h"
#include "core/option_table.h"

fw_status* fw_read_option(const char* variable, const char** value) {
  if (fw_status* const refused = farwrite::c_api::refuse_null(
          "read an option", {{"variable", variable != nullptr}, {"value", value != nullptr}})) {
    return refused;
  }
  std::string_view word;
  farwrite::Status read = farwrite::core::read_variable(variable, &word);
  if (read.ok()) *value = word.data();  // of a literal, so zero-terminated
  return farwrite::c_api::to_c(std::move(read));
}
