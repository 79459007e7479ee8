#include "core/option.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "farwrite/timeout.h"

namespace farwrite::core {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::string_view, 4> kOn = {"1", "true", "yes", "on"};
constexpr std::array<std::string_view, 4> kOff = {"0", "false", "no", "off"};

std::string lower(std::string_view text) {
  std::string plain(text);
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return plain;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// All of `text`.
template <typename Number>
std::optional<Number> to_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// `number` times `factor`, if that is finite and fits. A whole number stays exact.
std::optional<std::int64_t> scaled(std::string_view number, double factor) {
  const std::optional<std::int64_t> whole = to_number<std::int64_t>(number);
  if (whole && factor == 1) return whole;
  const std::optional<double> value = to_number<double>(number);
  // The largest integer rounds up to a double that is out of range.
  if (!value || !(std::abs(*value * factor) < static_cast<double>(kMost))) return std::nullopt;
  return static_cast<std::int64_t>(*value * factor);
}

// "8", "4K", "64MB", "1.5GiB", "1T": bytes.
std::optional<std::int64_t> to_bytes(std::string_view text) {
  const std::string plain = lower(text);
  std::string_view number = plain;
  if (number.ends_with('b')) number.remove_suffix(1);
  if (number.ends_with('i')) number.remove_suffix(1);
  constexpr std::string_view kUnits = "kmgt";
  const std::size_t unit = number.empty() ? kUnits.npos : kUnits.find(number.back());
  if (unit == kUnits.npos) return scaled(number, 1);
  number.remove_suffix(1);
  return scaled(number, std::ldexp(1.0, 10 * (static_cast<int>(unit) + 1)));
}

// "5", "0.5 s", "20us", "100ms", "10min", "1h": nanoseconds. More than a century is for ever.
std::optional<std::int64_t> to_nanoseconds(std::string_view text) {
  const std::string plain = lower(text);
  std::string_view number = plain;
  double factor = 1e9;
  for (const auto& [unit, nanoseconds] : {std::pair<std::string_view, double>{"ns", 1},
                                          {"us", 1e3},
                                          {"ms", 1e6},
                                          {"s", 1e9},
                                          {"min", 60e9},
                                          {"h", 3600e9}}) {
    if (!number.ends_with(unit)) continue;
    number.remove_suffix(unit.size());
    factor = nanoseconds;
    break;
  }
  const std::optional<double> value = to_number<double>(trimmed(number));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  if (*value * factor > 3.2e18) return kForever.count();
  return static_cast<std::int64_t>(std::llround(*value * factor));
}

std::optional<std::int64_t> to_number_of(OptionKind kind, std::string_view text) {
  if (kind == OptionKind::kSize) return to_bytes(text);
  if (kind == OptionKind::kSeconds) return to_nanoseconds(text);
  return to_number<std::int64_t>(text);
}

std::optional<bool> to_switch(std::string_view text) {
  const std::string plain = lower(text);
  if (std::find(kOn.begin(), kOn.end(), plain) != kOn.end()) return true;
  if (std::find(kOff.begin(), kOff.end(), plain) != kOff.end()) return false;
  return std::nullopt;
}

// Empty if any of the names is not a fabric's.
std::vector<FabricKind> to_fabrics(std::string_view names) {
  std::vector<FabricKind> fabrics;
  while (true) {
    const std::size_t comma = names.find(',');
    const auto kind = parse_fabric(trimmed(names.substr(0, comma)));
    if (!kind.ok()) return {};
    fabrics.push_back(kind.value());
    if (comma == std::string_view::npos) return fabrics;
    names.remove_prefix(comma + 1);
  }
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::int64_t kMebi = std::int64_t{1} << 20;
  if (bytes >= kMebi && bytes % kMebi == 0) return std::to_string(bytes / kMebi) + " MiB";
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

// "off, transparent or explicit"
std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

// "a whole number from 1 to 64"
std::string accepted(const Option& option) {
  const std::string most = option.bounds.high == kMost ? " or more" : "";
  switch (option.kind) {
    case OptionKind::kCount:
      return "a whole number from " + std::to_string(option.bounds.low) + " to " +
             std::to_string(option.bounds.high);
    case OptionKind::kSize:
      return "a size of " + bytes_text(option.bounds.low) +
             (most.empty() ? " to " + bytes_text(option.bounds.high) : most) +
             ", in bytes or like 64K, 512M, 8G";
    case OptionKind::kSeconds:
      return "a time of " +
             (option.bounds.low == 0 ? "0"
                                     : std::to_string(option.bounds.low / 1'000'000) + " ms") +
             " or more, in seconds or like 20us, 100ms, 10min, 1h";
    case OptionKind::kSwitch:
      return "on or off";
    case OptionKind::kChoice:
      return joined(option.choices);
    case OptionKind::kEndpoint:
      return "an address like 127.0.0.1:7777 or [::1]:7777, with a port up to 65535";
    case OptionKind::kFabrics:
      return "a list of shm, verbs or tcp; in the environment, with commas between";
    case OptionKind::kPorts:
      return "a range of ports like 7000-7099, from 1 to 65535";
    case OptionKind::kText:
    case OptionKind::kFile:
    case OptionKind::kToken:
      break;
  }
  return most.empty() ? "a text of 1 to " + std::to_string(option.bounds.high) + " bytes"
                      : "a text";
}

// Stores the value of a text by the type of the field. Gives false, and stores nothing, if the text
// is not valid.
struct Parser {
  const Option& option;
  std::string_view text;

  bool operator()(std::string* field) const {
    if (text.size() > static_cast<std::uint64_t>(option.bounds.high)) return false;
    *field = text;
    return true;
  }
  bool operator()(Token* field) const {
    *field = text == "none" ? Token::none() : Token(std::string(text));
    return true;
  }
  bool operator()(Endpoint* field) const {
    const Result<Endpoint> endpoint = Endpoint::parse(text);
    if (endpoint.ok()) *field = endpoint.value();
    return endpoint.ok();
  }
  bool operator()(PortRange* field) const {
    const std::size_t dash = std::min(text.find('-'), text.size() - 1);
    const auto first = to_number<std::uint16_t>(trimmed(text.substr(0, dash)));
    const auto last = to_number<std::uint16_t>(trimmed(text.substr(dash + 1)));
    if (!first || !last || *first == 0 || *first > *last) return false;
    *field = {*first, *last};
    return true;
  }
  bool operator()(std::vector<FabricKind>* field) const {
    std::vector<FabricKind> fabrics = to_fabrics(text);
    if (fabrics.empty()) return false;
    *field = std::move(fabrics);
    return true;
  }
  bool operator()(std::optional<bool>* field) const {
    const std::optional<bool> value = to_switch(text);
    if (value) *field = value;
    return value.has_value();
  }
  bool operator()(bool* field) const {
    std::optional<bool> value;
    if ((*this)(&value)) *field = *value;
    return value.has_value();
  }
  bool operator()(HugePages* field) const {
    const auto word = std::find(option.choices.begin(), option.choices.end(), text);
    if (word == option.choices.end()) return false;
    *field = static_cast<HugePages>(word - option.choices.begin());
    return true;
  }
  bool operator()(std::string_view* field) const {
    if (option.kind == OptionKind::kSwitch) {
      const std::optional<bool> value = to_switch(text);
      if (value) *field = *value ? "on" : "off";
      return value.has_value();
    }
    const auto word = std::find(option.choices.begin(), option.choices.end(), text);
    if (word != option.choices.end()) *field = *word;
    return word != option.choices.end();
  }
  template <typename Number>  // an integer or nanoseconds
  bool operator()(Number* field) const {
    const std::optional<std::int64_t> number = to_number_of(option.kind, text);
    if (!number || *number < option.bounds.low || *number > option.bounds.high) return false;
    *field = static_cast<Number>(*number);
    return true;
  }
};

// The number in a field or the length of its text, at most kMost; nothing for any other field.
std::optional<std::int64_t> number_in(const Option& option, DeviceOptions& options) {
  return std::visit(
      [](auto* field) -> std::optional<std::int64_t> {
        using Value = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_same_v<Value, std::chrono::nanoseconds>) return field->count();
        if constexpr (std::is_same_v<Value, std::string>) return field->size();
        if constexpr (std::is_same_v<Value, std::uint64_t>) {
          return static_cast<std::int64_t>(std::min(*field, std::uint64_t{kMost}));
        }
        if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) return *field;
        return std::nullopt;
      },
      option.field(options));
}

}  // namespace

std::string_view shown(OptionKind kind) {
  switch (kind) {
    case OptionKind::kText:
      return "text";
    case OptionKind::kToken:
      return "text, or none";
    case OptionKind::kEndpoint:
      return "host:port";
    case OptionKind::kFabrics:
      return "names, with commas";
    case OptionKind::kCount:
      return "number";
    case OptionKind::kSize:
      return "bytes, or 512M";
    case OptionKind::kSeconds:
      return "seconds, or 100ms";
    case OptionKind::kSwitch:
      return "on or off";
    case OptionKind::kChoice:
      return "one of";
    case OptionKind::kFile:
      return "file";
    case OptionKind::kPorts:
      return "first-last";
  }
  return {};
}

std::string parse(const Option& option, std::string_view text, OptionField field) {
  text = trimmed(text);
  if (!text.empty() && std::visit(Parser{option, text}, field)) return {};
  return "is not " + accepted(option);
}

std::string check(const Option& option, DeviceOptions& options) {
  static DeviceOptions* const defaults = new DeviceOptions;
  const std::optional<std::int64_t> number = number_in(option, options);
  if (!number || (*number >= option.bounds.low && *number <= option.bounds.high) ||
      number == number_in(option, *defaults)) {
    return {};
  }
  const std::string_view unit = option.kind == OptionKind::kSeconds ? " ns"
                                : option.kind == OptionKind::kText  ? " bytes"
                                                                    : "";
  return std::to_string(*number) + std::string(unit) + " is not " + accepted(option);
}

}  // namespace farwrite::core
