// The rows of c_about.h, c_log.h and c_options.h, which need no device.
#include <string>
#include <utility>

#include "farwrite/c_api.h"
#include "fault/fixture.h"
#include "fault/matrix_c_calls.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

using W = MatrixWorld;

void count_bytes(void* context, const char* /*text*/, std::uint64_t bytes) {
  *static_cast<std::uint64_t*>(context) += bytes;
}

// The outcome of `call(handler, context)`, whose text comes with a success and only then.
template <typename Call>
Status with_text(const Call& call) {
  std::uint64_t bytes = 0;
  const Status status = status_of(call(count_bytes, &bytes));
  return status.ok() == (bytes > 0) ? status : Status(StatusCode::kInternal, "of the text");
}

// The outcome of `call(options)` with options that go with it.
template <typename Call>
Status with_options(const Call& call) {
  fw_options* const options = fw_options_make();
  Status status = status_of(call(options));
  fw_options_release(options);
  return status;
}

}  // namespace

std::vector<Row> matrix_c_about_rows() {
  return {
      fact("fw_about_options", [](W&) { return with_text(fw_about_options); }),
      fact("fw_about_counters", [](W&) { return with_text(fw_about_counters); }),
      fact("fw_about_fabrics",
           [](W&) {
             return with_text([](fw_text_handler on_text, void* context) {
               return fw_about_fabrics(nullptr, on_text, context);
             });
           }),
      fact("fw_about_topology",
           [](W&) {
             return with_text([](fw_text_handler on_text, void* context) {
               return fw_about_topology("/sys", on_text, context);
             });
           }),
      // Either outcome is one of the machine.
      fact("fw_check_encryption", [](W&) { fw_status_free(fw_check_encryption()); }),
      fact("fw_check_variable", [](W&) { return status_of(fw_check_variable("FARWRITE_LOG")); }),
      fact("fw_log", [](W&) { return status_of(fw_log("debug", "a line", 6)); }),
      fact("fw_log_level", [](W&) { return std::string(fw_log_level()).empty(); }),
      fact("fw_set_log_level", [](W&) { return status_of(fw_set_log_level(fw_log_level())); }),
      fact("fw_write_trace", [](W&) { return status_of(fw_write_trace()); }),
      fact("fw_stop_trace", [](W&) { return status_of(fw_stop_trace()); }),
      fact("fw_options_make", [](W&) { fw_options_release(fw_options_make()); }),
      fact("fw_options_release", [](W&) { fw_options_release(fw_options_make()); }),
      fact("fw_options_set",
           [](W&) {
             return with_options(
                 [](fw_options* options) { return fw_options_set(options, "lanes", "2"); });
           }),
      fact("fw_options_set_token",
           [](W&) {
             return with_options(
                 [](fw_options* options) { return fw_options_set_token(options, "t", 1); });
           }),
      fact("fw_options_value",
           [](W&) {
             return with_options([](fw_options* options) {
               std::uint64_t bytes = 0;
               return fw_options_value(options, "lanes", count_bytes, &bytes);
             });
           }),
      fact("fw_options_fields",
           [](W&) {
             return with_options([](fw_options* options) {
               const fw_device_options* fields = nullptr;
               return fw_options_fields(options, &fields);
             });
           }),
      fact("fw_private_view",
           [](W&) {
             fw_slice view = {};
             const Status mapped = status_of(fw_private_view("bytes", 5, &view));
             fw_lease_release(view.lease);
             return mapped;
           }),
  };
}

}  // namespace farwrite::fault
