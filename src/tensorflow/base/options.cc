#include "base/options.h"

#include <utility>

#include "base/status_bridge.h"
#include "farwrite/c_api.h"

namespace farwrite::plugin {
namespace {

struct Read {
  Options options;
  absl::Status status;

  Read() {
    std::string_view landing, control;
    for (const auto& [variable, word] : {
             std::pair<const char*, std::string_view*>{"FARWRITE_TF_ALLOCATION",
                                                       &options.allocation},
             {"FARWRITE_TF_TRACING", &options.tracing},
             {"FARWRITE_TF_LANDING", &landing},
             {"FARWRITE_TF_CONTROL", &control},
         }) {
      const char* text = "";
      const FwStatus read(fw_read_option(variable, &text));
      if (read != nullptr)
        status.Update(absl::InvalidArgumentError("Farwrite: " + message_of(read)));
      *word = text;
    }
    options.landing = landing != "off";
    options.control = control == "on";
  }
};

const Read& of_process() {
  static const Read* const only = new Read;  // outlives every thread
  return *only;
}

}  // namespace

const absl::Status& options_status() { return of_process().status; }

const Options& options() { return of_process().options; }

}  // namespace farwrite::plugin
