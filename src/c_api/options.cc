// The C ABI: options of devices by their keyword, and options of the TensorFlow plug-in.
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "c_api/handles.h"
#include "c_api/option_json.h"
#include "core/option_table.h"
#include "device/device_state.h"
#include "farwrite/internal/device_options.h"

struct fw_options {
  farwrite::DeviceOptions options = {};
  // Of `options`, after each change: reading them changes nothing, so threads may do it at once.
  std::optional<farwrite::internal::COptions> fields = {};
};

namespace {

using farwrite::Status;
using farwrite::StatusCode;
using farwrite::c_api::JsonText;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::core::Option;

constexpr const char* kSetOption = "set an option";
constexpr const char* kReadOption = "read an option";

// The row of a keyword that has a field, or null and `refused`.
const Option* find_option(const char* operation, const char* keyword, fw_status** refused) {
  const Option* const option = farwrite::core::find_keyword(keyword);
  if (option != nullptr && option->field != nullptr) return option;
  *refused = to_c(Status::error(StatusCode::kNotFound, {operation},
                                "a device has no option \"" + std::string(keyword) + "\"",
                                "docs/reference/options.md lists the options"));
  return nullptr;
}

}  // namespace

void farwrite::c_api::append_value(JsonText& json, core::OptionField field) {
  std::visit(
      [&json](auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string> ||
                      std::is_same_v<Value, std::string_view>) {
          json.text(*value);
        } else if constexpr (std::is_same_v<Value, Endpoint>) {
          json.text(value->to_string());
        } else if constexpr (std::is_same_v<Value, PortRange>) {
          json.text(*value == PortRange()
                        ? std::string()
                        : std::to_string(value->first) + "-" + std::to_string(value->last));
        } else if constexpr (std::is_same_v<Value, HugePages>) {
          json.text(core::kHugePagesNames[static_cast<std::size_t>(*value)]);
        } else if constexpr (std::is_same_v<Value, std::chrono::nanoseconds>) {
          json.real(std::chrono::duration<double>(*value).count());
        } else if constexpr (std::is_same_v<Value, std::vector<FabricKind>>) {
          json.begin_list();
          for (const FabricKind kind : *value) json.text(to_string(kind));
          json.end_list();
        } else if constexpr (std::is_same_v<Value, Token>) {
          json.null();
        } else if constexpr (std::is_same_v<Value, std::optional<bool>>) {
          value->has_value() ? json.boolean(**value) : json.null();
        } else if constexpr (std::is_same_v<Value, bool>) {
          json.boolean(*value);
        } else {
          json.whole(*value);
        }
      },
      field);
}

fw_options* fw_options_make(void) {
  auto* const options = new fw_options;
  options->fields.emplace(options->options);
  return options;
}

void fw_options_release(fw_options* options) { delete options; }

fw_status* fw_options_set(fw_options* options, const char* keyword, const char* text) {
  if (fw_status* const refused = refuse_null(kSetOption, {{"options", options != nullptr},
                                                          {"keyword", keyword != nullptr},
                                                          {"text", text != nullptr}})) {
    return refused;
  }
  fw_status* refused = nullptr;
  const Option* const option = find_option(kSetOption, keyword, &refused);
  if (option == nullptr) return refused;
  std::string fault = farwrite::core::parse(*option, text, option->field(options->options));
  options->fields.emplace(options->options);
  if (fault.empty()) return nullptr;
  return to_c(Status(StatusCode::kInvalidArgument, std::move(fault)));
}

fw_status* fw_options_set_token(fw_options* options, const void* token, uint64_t bytes) {
  constexpr const char* kSetToken = "set the token";
  if (fw_status* const refused = refuse_null(
          kSetToken,
          {{"options", options != nullptr}, farwrite::c_api::bytes_at("token", token, bytes)})) {
    return refused;
  }
  if (token != nullptr && bytes == 0) {  // by mistake a device would be open to all
    return to_c(Status::error(StatusCode::kInvalidArgument, {kSetToken}, "the token is empty",
                              "leave it out, or ask for none"));
  }
  options->options.token =
      token == nullptr ? farwrite::Token::none()
                       : farwrite::Token(std::string(static_cast<const char*>(token), bytes));
  options->fields.emplace(options->options);
  return nullptr;
}

fw_status* fw_options_value(const fw_options* options, const char* keyword, fw_text_handler on_text,
                            void* context) {
  if (fw_status* const refused = refuse_null(kReadOption, {{"options", options != nullptr},
                                                           {"keyword", keyword != nullptr},
                                                           {"on_text", on_text != nullptr}})) {
    return refused;
  }
  fw_status* refused = nullptr;
  const Option* const option = find_option(kReadOption, keyword, &refused);
  if (option == nullptr) return refused;
  farwrite::DeviceOptions read = options->options;  // the row's path is to a field that may change
  JsonText json;
  farwrite::c_api::append_value(json, option->field(read));
  return json.hand_to(on_text, context);
}

fw_status* fw_options_fields(const fw_options* options, const fw_device_options** fields) {
  if (fw_status* const refused =
          refuse_null("take the options of a device",
                      {{"options", options != nullptr}, {"fields", fields != nullptr}})) {
    return refused;
  }
  Status bad = farwrite::device::check_options(options->options);
  if (bad.ok()) bad = options->fields->status();
  if (!bad.ok()) return to_c(std::move(bad));
  *fields = options->fields->get();
  return nullptr;
}

fw_status* fw_read_option(const char* variable, const char** value) {
  if (fw_status* const refused = refuse_null(
          kReadOption, {{"variable", variable != nullptr}, {"value", value != nullptr}})) {
    return refused;
  }
  std::string_view word;
  Status read = farwrite::core::read_variable(variable, &word);
  if (read.ok()) *value = word.data();  // of a literal, so zero-terminated
  return to_c(std::move(read));
}
