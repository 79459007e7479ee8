#include "core/exposition.h"

#include <cstddef>

namespace farwrite::core {
namespace {

std::string seconds(std::uint64_t nanoseconds) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  constexpr std::size_t kDigits = 9;
  const std::string fraction = std::to_string(nanoseconds % kSecond);
  return std::to_string(nanoseconds / kSecond) + '.' + std::string(kDigits - fraction.size(), '0') +
         fraction;
}

}  // namespace

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  in_seconds_ = false;
  text_ += "# HELP " + name_ + " ";
  text_ += help;
  text_ += "\n# TYPE " + name_ + " ";
  text_ += type;
  text_ += '\n';
}

void Exposition::sample(const Labels& labels, std::uint64_t value) {
  text_ += name_;
  char separator = '{';
  const auto add = [&](std::string_view label, std::string_view text) {
    text_ += separator;
    text_ += label;
    text_ += "=\"";
    escape(text);
    text_ += '"';
    separator = ',';
  };
  if (device_) add("device", *device_);
  for (const auto& [label, text] : labels) {
    if (!text.empty()) add(label, text);
  }
  if (separator == ',') text_ += '}';
  text_ += ' ' + (in_seconds_ ? seconds(value) : std::to_string(value)) + '\n';
}

void Exposition::escape(std::string_view text) {
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else {
      // The format is UTF-8, and a peer's name is whatever the peer says.
      text_ += static_cast<unsigned char>(c) < 0x80 ? c : '?';
    }
  }
}

}  // namespace farwrite::core
