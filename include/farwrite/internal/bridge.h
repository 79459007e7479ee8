/// @file
/// What every part of the C++ interface takes from the C ABI below it: statuses, times, texts,
/// handles and callbacks. For the headers of Farwrite alone.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "farwrite/c_status.h"
#include "farwrite/endpoint.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"
#include "farwrite/timeout.h"

FARWRITE_BEGIN
namespace internal {

/// @private A status that its owner keeps, as a callback gets it.
inline Status copy_of(const fw_status* status) {
  if (status == nullptr) return Status();
  return Status(static_cast<StatusCode>(fw_status_code(status)), fw_status_message(status));
}

/// @private Takes a status over.
inline Status taken(fw_status* status) {
  if (status == nullptr) return Status();
  const std::unique_ptr<fw_status, void (*)(fw_status*)> owned(status, fw_status_free);
  return copy_of(status);
}

/// @private A timeout. One that has passed is 0, and kForever is FW_FOREVER.
inline std::uint64_t to_ns(std::chrono::nanoseconds timeout) {
  if (timeout == kForever) return FW_FOREVER;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0));
}

/// @private An endpoint that the library wrote, which can always be parsed.
inline Endpoint endpoint_of(const char* text) {
  Result<Endpoint> endpoint = Endpoint::parse(text);
  return endpoint.ok() ? *std::move(endpoint) : Endpoint();
}

/// @private The C ABI ends a text at its first zero byte.
inline Status refuse_zero(std::string_view operation, std::string_view what,
                          std::string_view text) {
  if (text.find('\0') == std::string_view::npos) return Status();
  return Status::error(StatusCode::kInvalidArgument, {operation},
                       std::string(what) + " holds a zero byte", "use another text");
}

/// @private The C ABI's times have no sign.
inline Status refuse_negative(std::string_view operation, std::string_view what,
                              std::chrono::nanoseconds time) {
  if (time.count() >= 0) return Status();
  return Status::error(StatusCode::kInvalidArgument, {operation},
                       std::string(what) + " is " + std::to_string(time.count()) + " ns",
                       "use a time of 0 or more");
}

/// @private A handle of the C ABI, released with its last copy.
template <typename Handle>
std::shared_ptr<Handle> owned(Handle* handle, void (*release)(Handle*)) {
  return std::shared_ptr<Handle>(handle, release);
}

/// @private A handle of the C ABI that one owner releases.
template <typename Handle>
using Only = std::unique_ptr<Handle, void (*)(Handle*)>;

/// @private
template <typename Handle>
Only<Handle> only(Handle* handle, void (*release)(Handle*)) {
  return Only<Handle>(handle, release);
}

/// @private What `write(buffer, capacity)` writes, as fw_device_metrics() does.
template <typename Write>
std::string whole_text(const Write& write) {
  std::string text;
  for (std::uint64_t length = write(nullptr, 0); length > text.size();) {
    text.resize(length);
    length = write(text.data(), text.size() + 1);  // the zero lands where std::string keeps one
    if (length <= text.size()) text.resize(length);
  }
  return text;
}

/// @private What a call hands to a handler piece by piece, as the handler's context. Out of memory
/// there is thrown once the call is over, because nothing may be thrown through it.
template <typename T>
class Gathered {
 public:
  /// Runs `add`, with what was gathered, in the handler.
  template <typename Add>
  static void into(void* context, Add&& add) noexcept {
    auto& self = *static_cast<Gathered*>(context);
    if (self.failure_ != nullptr) return;
#ifdef __cpp_exceptions
    try {
      add(self.value_);
    } catch (...) {
      self.failure_ = std::current_exception();
    }
#else
    add(self.value_);
#endif
  }
  /// After the call: what was gathered, or throws what `add` has thrown.
  T take() {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    return std::move(value_);
  }

 private:
  T value_{};
  std::exception_ptr failure_;
};

/// @private An object that the C ABI keeps as a context, and releases once. What a function in it
/// throws ends the program: the functions that call it are noexcept.
template <typename Function>
struct Context {
  /// Takes the function over; release() frees it.
  static void* make(Function function) { return new Function(std::move(function)); }
  /// The function of a context.
  static Function& of(void* context) { return *static_cast<Function*>(context); }
  /// Frees a context.
  static void release(void* context) noexcept { delete static_cast<Function*>(context); }
};

}  // namespace internal
FARWRITE_END
