/// @file
/// The parts of an error's sentence, as Status::error() puts them together.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN
namespace internal {

/// @private The text of nothing, for as long as the process lives.
inline const std::string& no_text() {
  static const std::string* const empty = new std::string();
  return *empty;
}

/// @private
inline bool begins_with(std::string_view text, std::string_view words) {
  return text.substr(0, words.size()) == words;
}

/// @private The preposition between an operation and its peer: "from" if it gets something of the
/// peer, "at" if the peer is where it happens, "for" if it is for the peer alone.
inline std::string_view towards(std::string_view operation) {
  constexpr std::string_view kTaking[] = {"read", "receive", "wait", "map", "lease"};
  constexpr std::string_view kThere[] = {
      "look",  "list",   "find",          "change",           "create",
      "draft", "commit", "use a segment", "attach a segment", "open memory"};
  for (const std::string_view words : kTaking) {
    if (begins_with(operation, words)) return "from";
  }
  if (begins_with(operation, "allocate")) return "for";
  for (const std::string_view words : kThere) {
    if (begins_with(operation, words)) return "at";
  }
  return "to";
}

/// @private
inline void append_word(std::string& sentence, std::string_view preposition,
                        std::string_view word) {
  if (word.empty()) return;
  for (const std::string_view part : {preposition, word}) {
    if (part.empty()) continue;
    if (!sentence.empty()) sentence += ' ';
    sentence += part;
  }
}

/// @private
inline void append_clause(std::string& sentence, std::string_view separator,
                          std::string_view clause) {
  if (clause.empty()) return;
  if (!sentence.empty()) sentence += separator;
  sentence += clause;
}

/// @private What to do when the machine or the process lacks something; empty for other errors.
inline std::string_view remedy_for_lack(int error_number) {
  switch (error_number) {
    case EMFILE:
    case ENFILE:
      return "close what is not used, or raise the limit of open files (ulimit -n)";
    case ENOMEM:
    case ENOBUFS:
      return "free memory, or raise the limits (ulimit -v)";
    case ENOSPC:
    case EDQUOT:
      return "free space there";
    default:
      return {};
  }
}

}  // namespace internal
FARWRITE_END
