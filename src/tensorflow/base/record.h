// Records: the little-endian binary form of what two plug-ins tell each other. Reading is
// bounds-checked; a reader that failed once fails for good.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace farwrite::plugin {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are written as they lie");

class RecordWriter {
 public:
  explicit RecordWriter(std::size_t expected_bytes) { text_.reserve(expected_bytes); }

  template <typename Number>
  void number(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void raw(std::string_view bytes) { text_.append(bytes.data(), bytes.size()); }
  void text(std::string_view bytes) {
    number(static_cast<std::uint32_t>(bytes.size()));
    raw(bytes);
  }
  const std::string& bytes() const { return text_; }

 private:
  std::string text_;
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  Number number() {
    Number value{};
    const std::string_view bytes = raw(sizeof(value));
    if (!failed_) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  std::string_view raw(std::size_t size) {
    if (failed_ || size > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::string_view text() { return raw(number<std::uint32_t>()); }
  std::string_view rest() const { return rest_; }
  bool ok() const { return !failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace farwrite::plugin
