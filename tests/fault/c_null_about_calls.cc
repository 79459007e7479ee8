// Functions of c_about.h, c_log.h and c_options.h, for NULL.
#include "fault/c_null_calls.h"

namespace farwrite::fault {
namespace {

void refuse_text(void* /*context*/, const char* /*text*/, std::uint64_t /*bytes*/) {
  ADD_FAILURE() << "a refused call passed a text";
}

fw_options* some_options() {
  static fw_options* const options = fw_options_make();
  return options;
}

}  // namespace

NullCalls null_about_calls() {
  return {
      .refused =
          {
              {"fw_about_options", [] { return fw_about_options(nullptr, nullptr); }},
              {"fw_about_counters", [] { return fw_about_counters(nullptr, nullptr); }},
              {"fw_about_fabrics", [] { return fw_about_fabrics(nullptr, nullptr, nullptr); }},
              {"fw_about_topology", [] { return fw_about_topology("/sys", nullptr, nullptr); }},
              {"fw_about_topology",
               [] { return fw_about_topology(nullptr, refuse_text, nullptr); }},
              {"fw_check_variable", [] { return fw_check_variable(nullptr); }},
              {"fw_log", [] { return fw_log(nullptr, "text", 4); }},
              {"fw_log", [] { return fw_log("warning", nullptr, 4); }},
              {"fw_set_log_level", [] { return fw_set_log_level(nullptr); }},
              {"fw_options_set", [] { return fw_options_set(nullptr, "lanes", "2"); }},
              {"fw_options_set", [] { return fw_options_set(some_options(), nullptr, "2"); }},
              {"fw_options_set", [] { return fw_options_set(some_options(), "lanes", nullptr); }},
              {"fw_options_set_token", [] { return fw_options_set_token(nullptr, "t", 1); }},
              {"fw_options_set_token",
               [] { return fw_options_set_token(some_options(), nullptr, 1); }},
              {"fw_options_value",
               [] { return fw_options_value(nullptr, "lanes", refuse_text, nullptr); }},
              {"fw_options_value",
               [] { return fw_options_value(some_options(), nullptr, refuse_text, nullptr); }},
              {"fw_options_value",
               [] { return fw_options_value(some_options(), "lanes", nullptr, nullptr); }},
              {"fw_options_fields",
               [] {
                 const fw_device_options* fields = nullptr;
                 return fw_options_fields(nullptr, &fields);
               }},
              {"fw_options_fields", [] { return fw_options_fields(some_options(), nullptr); }},
              {"fw_private_view",
               [] {
                 fw_slice view = {};
                 return fw_private_view(nullptr, 1, &view);
               }},
              {"fw_private_view", [] { return fw_private_view("m", 1, nullptr); }},
          },
      .nothing = {{"fw_options_release", [] { return fw_options_release(nullptr), true; }}},
  };
}

}  // namespace farwrite::fault
