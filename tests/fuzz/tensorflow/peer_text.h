// Bytes of a peer as the plug-in's decoders take them.
#pragma once

#include <functional>
#include <string_view>

#include "target.h"

namespace farwrite::fuzz {

inline std::string_view text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

inline Bytes bytes_of(std::string_view text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

// Whether `part` refers to bytes of `whole`.
inline bool lies_in(std::string_view whole, std::string_view part) {
  if (part.empty()) return true;
  const std::less_equal<const char*> before;
  return before(whole.data(), part.data()) &&
         before(part.data() + part.size(), whole.data() + whole.size());
}

}  // namespace farwrite::fuzz
