// Settings of verbs as text, for programs that have no fields to set: the C ABI.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>

#include "farwrite/options.h"

namespace farwrite {
namespace {

constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMost64 = std::numeric_limits<std::int64_t>::max();

// A whole number from `low` to `high`, "64K", "1M" and "1G" as well; `what` if it is none.
std::string read_number(std::string_view text, std::uint64_t low, std::uint64_t high,
                        std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view kUnits = "KMG";
  const std::size_t power = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  bool fits = error == std::errc() && (unit.empty() || power != std::string_view::npos);
  if (fits && !unit.empty()) {
    const auto shift = static_cast<unsigned>(10 * (power + 1));
    fits = number <= kMost64 >> shift;
    number <<= shift;
  }
  if (fits && number >= low && number <= high) return {};
  return "is not a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}

std::string read_switch(std::string_view text, bool& value) {
  std::string plain(text);
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto is_one_of = [&](auto words) {
    return std::find(words.begin(), words.end(), plain) != words.end();
  };
  value = is_one_of(std::array{"1", "true", "yes", "on"});
  if (value || is_one_of(std::array{"0", "false", "no", "off"})) return {};
  return "is neither on nor off";
}

template <typename Number>
std::string read_into(Number& field, std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t number = 0;
  std::string fault = read_number(text, low, high, number);
  if (fault.empty()) field = static_cast<Number>(number);
  return fault;
}

// Empty, or what is wrong with the value.
std::string set_one(VerbsOptions& options, std::string_view name, std::string_view value) {
  if (name == "device") {
    options.device = value;
    return {};
  }
  if (name == "port") return read_into(options.port, value, 1, 255);
  if (name == "gid_index") return read_into(options.gid_index, value, 0, 65535);
  if (name == "send_queue_depth") return read_into(options.send_queue_depth, value, 1, kMost32);
  if (name == "receive_credits") return read_into(options.receive_credits, value, 1, kMost32);
  if (name == "chunk_bytes") return read_into(options.chunk_bytes, value, 1, kMost64);
  if (name == "signal_every") return read_into(options.signal_every, value, 1, kMost32);
  if (name == "inline_bytes") return read_into(options.inline_bytes, value, 0, kMost32);
  if (name == "retry_count") return read_into(options.retry_count, value, 0, 7);
  if (name == "rnr_retry_count") return read_into(options.rnr_retry_count, value, 0, 7);
  if (name == "use_immediate") return read_switch(value, options.use_immediate);
  if (name == "relaxed_ordering") {
    bool relaxed = false;
    std::string fault = read_switch(value, relaxed);
    if (fault.empty()) options.relaxed_ordering = relaxed;
    return fault;
  }
  return "is not a setting of verbs";
}

}  // namespace

Status set_verbs_options(std::string_view text, VerbsOptions& options) {
  VerbsOptions result = options;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view setting = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = setting.find('=');
    const std::string fault =
        equals == std::string_view::npos
            ? "has no value"
            : set_one(result, setting.substr(0, equals), setting.substr(equals + 1));
    if (!fault.empty()) {
      return Status::error(StatusCode::kInvalidArgument, {"set options of verbs"},
                           "\"" + std::string(setting) + "\" " + fault,
                           "write name=value, with commas between; docs/reference/options.md lists "
                           "the names, with verbs_ before them");
    }
  }
  options = std::move(result);
  return Status();
}

}  // namespace farwrite
