// Whether text is JSON, by RFC 8259: strict, so that a file with one wrong byte fails a test.
#pragma once

#include <cctype>
#include <string_view>

namespace farwrite {

class JsonCheck {
 public:
  static bool is_json(std::string_view text) {
    JsonCheck check(text);
    return check.value() && (check.space(), check.text_.empty());
  }

 private:
  explicit JsonCheck(std::string_view text) : text_(text) {}

  void space() {
    while (!text_.empty() && std::string_view(" \t\r\n").find(text_[0]) != std::string_view::npos) {
      text_.remove_prefix(1);
    }
  }
  bool take(std::string_view wanted) {
    if (text_.substr(0, wanted.size()) != wanted) return false;
    text_.remove_prefix(wanted.size());
    return true;
  }
  bool value() {
    space();
    if (take("{")) return members('}', true);
    if (take("[")) return members(']', false);
    if (!text_.empty() && text_[0] == '"') return string();
    return take("true") || take("false") || take("null") || number();
  }
  bool members(char end, bool named) {
    space();
    if (take({&end, 1})) return true;
    do {
      space();
      if (named && !(string() && (space(), take(":")))) return false;
      if (!value()) return false;
      space();
    } while (take(","));
    return take({&end, 1});
  }
  bool string() {
    if (!take("\"")) return false;
    while (!text_.empty()) {
      const auto c = static_cast<unsigned char>(text_[0]);
      text_.remove_prefix(1);
      if (c == '"') return true;
      if (c < 0x20 || c >= 0x80) return false;  // ours is ASCII
      if (c == '\\' && !escape()) return false;
    }
    return false;
  }
  bool escape() {
    if (text_.empty()) return false;
    const char kind = text_[0];
    text_.remove_prefix(1);
    if (kind != 'u') return std::string_view("\"\\/bfnrt").find(kind) != std::string_view::npos;
    for (int digit = 0; digit < 4; ++digit) {
      if (text_.empty() || std::isxdigit(static_cast<unsigned char>(text_[0])) == 0) return false;
      text_.remove_prefix(1);
    }
    return true;
  }
  bool digits() {
    bool any = false;
    for (; !text_.empty() && text_[0] >= '0' && text_[0] <= '9'; text_.remove_prefix(1)) any = true;
    return any;
  }
  bool number() {
    (void)take("-");
    if (!take("0") && !digits()) return false;
    if (take(".") && !digits()) return false;
    if (!take("e") && !take("E")) return true;
    (void)(take("-") || take("+"));
    return digits();
  }

  std::string_view text_;
};

}  // namespace farwrite
