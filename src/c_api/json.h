// JsonText: writes one JSON value, for the texts of the C ABI.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

#include "farwrite/c_options.h"

namespace farwrite::c_api {

// Puts the commas. The caller begins and ends each object and list, and calls key() before each
// value in an object. Texts must be UTF-8.
class JsonText {
 public:
  JsonText& begin_object() { return open('{'); }
  JsonText& end_object() { return close('}'); }
  JsonText& begin_list() { return open('['); }
  JsonText& end_list() { return close(']'); }
  JsonText& key(std::string_view name) {
    separate();
    append_quoted(name);
    text_ += ':';
    separated_ = true;
    return *this;
  }

  JsonText& text(std::string_view value) {
    separate();
    append_quoted(value);
    return *this;
  }
  JsonText& boolean(bool value) { return word(value ? "true" : "false"); }
  JsonText& null() { return word("null"); }
  JsonText& whole(std::integral auto value) { return word(std::to_string(value)); }
  // With a point or an exponent, so that it stays a real number to a reader that tells them apart.
  JsonText& real(double value) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    std::string number(digits, end);
    if (number.find_first_of(".e") == std::string::npos) number += ".0";
    return word(number);
  }

  // Passes what was written to a handler of the C ABI.
  fw_status* hand_to(fw_text_handler on_text, void* context) const {
    on_text(context, text_.c_str(), text_.size());
    return nullptr;
  }

 private:
  JsonText& open(char bracket) {
    separate();
    text_ += bracket;
    separated_ = true;
    return *this;
  }
  JsonText& close(char bracket) {
    text_ += bracket;
    separated_ = false;
    return *this;
  }
  JsonText& word(std::string_view value) {
    separate();
    text_ += value;
    return *this;
  }
  void separate() {
    if (!separated_) text_ += ',';
    separated_ = false;
  }
  void append_quoted(std::string_view value) {
    text_ += '"';
    for (const char letter : value) {
      const auto code = static_cast<unsigned char>(letter);
      if (code < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof(escaped), "\\u%04x", code);
        text_ += escaped;
        continue;
      }
      if (letter == '"' || letter == '\\') text_ += '\\';
      text_ += letter;
    }
    text_ += '"';
  }

  std::string text_;
  bool separated_ = true;  // nothing stands before what comes next in its object or list
};

}  // namespace farwrite::c_api
