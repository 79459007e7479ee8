#include "farwrite/status.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "core/channel_end.h"

namespace farwrite {
namespace {

// The preposition between an operation and its peer: "from" if it gets something of the peer, "at"
// if the peer is where it happens, "for" if it is for the peer alone.
std::string_view towards(std::string_view operation) {
  constexpr std::array kTaking{"read", "receive", "wait", "map", "lease"};
  constexpr std::array kThere{
      "look",  "list",   "find",          "change",           "create",
      "draft", "commit", "use a segment", "attach a segment", "open memory"};
  const auto begins = [&](std::string_view words) { return operation.starts_with(words); };
  if (std::ranges::any_of(kTaking, begins)) return "from";
  if (begins("allocate")) return "for";
  return std::ranges::any_of(kThere, begins) ? "at" : "to";
}

void append_word(std::string& sentence, std::string_view preposition, std::string_view word) {
  if (word.empty()) return;
  for (const std::string_view part : {preposition, word}) {
    if (part.empty()) continue;
    if (!sentence.empty()) sentence += ' ';
    sentence += part;
  }
}

void append_clause(std::string& sentence, std::string_view separator, std::string_view clause) {
  if (clause.empty()) return;
  if (!sentence.empty()) sentence += separator;
  sentence += clause;
}

// What to do when the machine or the process lacks something; empty for other errors.
std::string_view remedy_for_lack(int error_number) {
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

}  // namespace

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kOutOfRange:
      return "out of range";
    case StatusCode::kPermissionDenied:
      return "permission denied";
    case StatusCode::kUnauthenticated:
      return "unauthenticated";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kFailedPrecondition:
      return "failed precondition";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kPeerDead:
      return "peer dead";
    case StatusCode::kPeerSilent:
      return "peer silent";
    case StatusCode::kPeerRestarted:
      return "peer restarted";
    case StatusCode::kVersionMismatch:
      return "version mismatch";
    case StatusCode::kProtocolError:
      return "protocol error";
    case StatusCode::kForked:
      return "forked";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kInternal:
      return "internal";
    case StatusCode::kEndOfStream:
      return "end of stream";
  }
  // A code from a newer peer: the sentence beside it still explains.
  return "unknown";
}

Status Status::error(StatusCode code, const ErrorContext& where, std::string_view cause,
                     std::string_view remedy) {
  std::string sentence;
  append_word(sentence, "", where.operation);
  append_word(sentence, towards(where.operation), where.peer);
  append_word(sentence, "over", where.fabric);
  append_clause(sentence, ": ", cause);
  append_clause(sentence, "; ", remedy);
  return Status(code, std::move(sentence));
}

Status core::end_of(std::string_view operation, Status reason) {
  std::string_view rest = reason.message();
  if (operation.empty() || !rest.starts_with(kUseTheChannel)) return reason;
  rest.remove_prefix(kUseTheChannel.size());
  std::string sentence(operation);
  constexpr std::string_view kTo = " to ";
  if (rest.starts_with(kTo)) {
    rest.remove_prefix(kTo.size());
    sentence.append(" ").append(towards(operation)).append(" ");
  }
  return Status(reason.code(), sentence.append(rest));
}

Status Status::system_error(StatusCode code, const ErrorContext& where, std::string_view cause,
                            int error_number, std::string_view remedy) {
  char buffer[128];
  // GNU's strerror_r returns the text, which need not be in the buffer; strerror is not
  // thread-safe.
  const char* text = ::strerror_r(error_number, buffer, sizeof buffer);
  std::string whole_cause(cause);
  append_clause(whole_cause, ": ", text);
  whole_cause += " (errno " + std::to_string(error_number) + ")";
  const bool says_little = code == StatusCode::kUnavailable || code == StatusCode::kInternal ||
                           code == StatusCode::kProtocolError;
  const std::string_view lack = remedy_for_lack(error_number);
  if (says_little && !lack.empty()) {
    return error(StatusCode::kResourceExhausted, where, whole_cause, lack);
  }
  return error(code, where, whole_cause, remedy);
}

std::string Status::to_string() const {
  std::string text(farwrite::to_string(code_));
  append_clause(text, ": ", message_);
  return text;
}

namespace internal {

void die_without_value(const Status& status) {
  std::fprintf(stderr, "farwrite: value() of a Result that holds an error: %s\n",
               status.to_string().c_str());
  std::abort();
}

}  // namespace internal
}  // namespace farwrite
