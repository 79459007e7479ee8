/// @file
/// Status and Result: how every call of Farwrite reports failure. No exception crosses the C++ API.
///
/// A message is one sentence that names the operation, the peer if it is about one, the fabric if
/// it is about that, the cause, and the remedy:
///
///     write to 127.0.0.1:7777: offset 96 + 64 bytes ends past the 128 bytes of the peer's memory;
///     stay inside it
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "farwrite/internal/namespace.h"
#include "farwrite/internal/sentence.h"

FARWRITE_BEGIN

/// The kind of a failure, for programs. The numbers are part of the wire protocol: never renumber.
enum class StatusCode : std::uint8_t {
  kOk = 0,                  ///< success
  kInvalidArgument = 1,     ///< an argument that is invalid in every state
  kNotFound = 2,            ///< no region, name or peer matches
  kAlreadyExists = 3,       ///< the name or port is taken
  kOutOfRange = 4,          ///< offset + length leaves the region
  kPermissionDenied = 5,    ///< the region's access rights, or another user's process
  kUnauthenticated = 6,     ///< the shared token is missing or wrong
  kResourceExhausted = 7,   ///< arena, quota, descriptors or ring slots are used up
  kFailedPrecondition = 8,  ///< a valid call in the wrong state (device closed, region closed)
  kUnavailable = 9,         ///< the fabric or the peer is unavailable now
  kDeadlineExceeded = 10,   ///< the caller's deadline passed; the operation may still be in flight
  kCancelled = 11,          ///< the caller stopped waiting
  kPeerDead = 12,           ///< the peer's death is proven (process gone, connection reset)
  kPeerSilent = 13,         ///< the peer does not answer; it may come back
  kPeerRestarted = 14,      ///< the descriptor belongs to an earlier start of that device
  kVersionMismatch = 15,    ///< the two sides share no wire version
  kProtocolError = 16,      ///< the peer sent bytes that break the protocol
  kForked = 17,             ///< a forked child used its parent's device
  kUnsupported = 18,        ///< this fabric or machine does not support the operation
  kInternal = 19,           ///< a bug in Farwrite
  kEndOfStream = 20,        ///< the sender closed the stream, and everything was received
};

/// The code in words: "out of range" for kOutOfRange. Stable, for logs and tests.
inline std::string_view to_string(StatusCode code) {
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

/// Where an error happened. The sentence leaves out empty fields.
struct ErrorContext {
  std::string_view operation;    ///< "write", "connect", "allocate"
  std::string_view peer = {};    ///< "127.0.0.1:7777", or empty
  std::string_view fabric = {};  ///< "shm", or empty
};

/// Success, or a code and a sentence. Copyable; success is a null pointer, so it costs nothing to
/// hand on. One that was moved from is ok. Thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;  ///< success
  /// Takes the whole sentence. Status::error() builds one from its parts.
  Status(StatusCode code, std::string message)
      : failure_(code == StatusCode::kOk ? nullptr : new Failure{code, std::move(message)}) {}
  /// Copies the sentence of a failure.
  Status(const Status& other) : failure_(other.ok() ? nullptr : new Failure(*other.failure_)) {}
  Status(Status&& other) noexcept = default;  ///< takes it; `other` is ok then
  /// Copies the sentence of a failure.
  Status& operator=(const Status& other) {
    if (this != &other) *this = Status(other);
    return *this;
  }
  Status& operator=(Status&& other) noexcept = default;  ///< takes it; `other` is ok then
  ~Status() = default;

  /// Builds the sentence `OPERATION to PEER over FABRIC: CAUSE; REMEDY`, with "from" for a read.
  static Status error(StatusCode code, const ErrorContext& where, std::string_view cause,
                      std::string_view remedy);
  /// Builds the same sentence, with the text of `error_number` (an errno) appended to the cause. If
  /// it says that descriptors, memory or disk space are used up, kUnavailable, kInternal and
  /// kProtocolError become kResourceExhausted, with the remedy for that.
  static Status system_error(StatusCode code, const ErrorContext& where, std::string_view cause,
                             int error_number, std::string_view remedy);

  bool ok() const { return failure_ == nullptr; }  ///< true for kOk
  explicit operator bool() const { return ok(); }  ///< ok()
  /// The kind of the failure.
  StatusCode code() const { return ok() ? StatusCode::kOk : failure_->code; }
  /// The sentence, without the code. Empty on success.
  const std::string& message() const { return ok() ? internal::no_text() : failure_->message; }
  /// The code and the sentence, "out of range: write to ...", or "ok".
  std::string to_string() const;

 private:
  struct Failure {
    StatusCode code;
    std::string message;
  };

  // Out of line, because nearly every function destroys a Status, and nearly none a failure.
  struct Drop {
    [[gnu::noinline]] void operator()(const Failure* failure) const noexcept { delete failure; }
  };

  std::unique_ptr<const Failure, Drop> failure_;  // null: success
};

inline Status Status::error(StatusCode code, const ErrorContext& where, std::string_view cause,
                            std::string_view remedy) {
  std::string sentence;
  internal::append_word(sentence, "", where.operation);
  internal::append_word(sentence, internal::towards(where.operation), where.peer);
  internal::append_word(sentence, "over", where.fabric);
  internal::append_clause(sentence, ": ", cause);
  internal::append_clause(sentence, "; ", remedy);
  return Status(code, std::move(sentence));
}

inline Status Status::system_error(StatusCode code, const ErrorContext& where,
                                   std::string_view cause, int error_number,
                                   std::string_view remedy) {
  char buffer[128];
  // GNU's strerror_r returns the text, which need not be in the buffer; strerror is not
  // thread-safe.
  const char* text = ::strerror_r(error_number, buffer, sizeof buffer);
  std::string whole_cause(cause);
  internal::append_clause(whole_cause, ": ", text);
  whole_cause += " (errno " + std::to_string(error_number) + ")";
  const bool says_little = code == StatusCode::kUnavailable || code == StatusCode::kInternal ||
                           code == StatusCode::kProtocolError;
  const std::string_view lack = internal::remedy_for_lack(error_number);
  if (says_little && !lack.empty()) {
    return error(StatusCode::kResourceExhausted, where, whole_cause, lack);
  }
  return error(code, where, whole_cause, remedy);
}

inline std::string Status::to_string() const {
  std::string text(farwrite::to_string(code()));
  internal::append_clause(text, ": ", message());
  return text;
}

/// A value, or the Status that explains why there is none. value() on an error aborts the process
/// with the message: test ok() first.
template <typename T>
class [[nodiscard]] Result {
 public:
  /// Success, with a value.
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// Failure. `status` must not be ok.
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }    ///< true if there is a value
  explicit operator bool() const { return ok(); }   ///< ok()
  const Status& status() const { return status_; }  ///< why there is no value; ok if there is one

  /// The value. On an error the process aborts.
  T& value() & {
    require_value();
    return *value_;
  }
  /// The value. On an error the process aborts.
  const T& value() const& {
    require_value();
    return *value_;
  }
  /// The value, to move from. On an error the process aborts.
  T&& value() && {
    require_value();
    return std::move(*value_);
  }
  T& operator*() & { return value(); }                     ///< value()
  T&& operator*() && { return std::move(*this).value(); }  ///< value()
  T* operator->() { return &value(); }  ///< the value's members, as value() gives them

 private:
  void require_value() const;

  std::optional<T> value_;
  Status status_;
};

namespace internal {
/// @private Ends the process with the sentence of `status`.
[[noreturn]] inline void die_without_value(const Status& status) {
  std::fprintf(stderr, "farwrite: value() of a Result that holds an error: %s\n",
               status.to_string().c_str());
  std::abort();
}
}  // namespace internal

template <typename T>
void Result<T>::require_value() const {
  if (!value_.has_value()) internal::die_without_value(status_);
}

FARWRITE_END

/// Returns from the enclosing function if `expression` is not ok.
#define FARWRITE_RETURN_IF_ERROR(expression)             \
  do {                                                   \
    ::farwrite::Status farwrite_status_ = (expression);  \
    if (!farwrite_status_.ok()) return farwrite_status_; \
  } while (false)
