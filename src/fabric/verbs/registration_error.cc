#include "fabric/verbs/registration_error.h"

#include <sys/resource.h>

#include <cerrno>

namespace farwrite::fabric::verbs {
namespace {

constexpr const char* kRaiseLimit =
    "raise it: `* - memlock unlimited` in /etc/security/limits.conf and a new login, "
    "LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for docker; or give the process "
    "CAP_IPC_LOCK";

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

std::string describe(const RegistrationRequest& request) {
  return "register " + bytes_text(request.memory.size) + " with " + request.device;
}

Status locking_denied(const RegistrationRequest& request, int error_number) {
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  if (!known || limit.rlim_cur == RLIM_INFINITY) {
    if (error_number == EPERM) {
      return Status::system_error(
          StatusCode::kPermissionDenied, {describe(request), "", "verbs"},
          "the kernel does not let this process lock memory", error_number,
          "in a container, add --ulimit memlock=-1 --cap-add=IPC_LOCK --device=/dev/infiniband");
    }
    return Status::system_error(StatusCode::kResourceExhausted, {describe(request), "", "verbs"},
                                "memory or the adapter's tables of registrations are exhausted",
                                error_number,
                                "register less at once: larger and fewer pieces, smaller arenas "
                                "(send_limit, receive_limit)");
  }
  std::string cause = "this process may lock " + std::to_string(limit.rlim_cur / 1024) +
                      " KiB of memory (`ulimit -l`), and " + bytes_text(request.memory.size);
  if (request.registered_bytes != 0) {
    cause += " on top of the " + bytes_text(request.registered_bytes) + " registered already";
  }
  cause += " exceed that";
  return Status::system_error(StatusCode::kResourceExhausted, {describe(request), "", "verbs"},
                              cause, error_number, kRaiseLimit);
}

}  // namespace

Status too_large(const RegistrationRequest& request) {
  return Status::error(
      StatusCode::kResourceExhausted, {describe(request), "", "verbs"},
      "the adapter registers at most " + bytes_text(request.max_bytes) + " at once (max_mr_size)",
      "transfer in smaller pieces, or make segment_bytes smaller");
}

Status registration_error(const RegistrationRequest& request, int error_number) {
  const auto fail = [&](StatusCode code, const char* cause, const char* remedy) {
    return Status::system_error(code, {describe(request), "", "verbs"}, cause, error_number,
                                remedy);
  };
  switch (error_number) {
    case ENOMEM:
    case EPERM:
      return locking_denied(request, error_number);
    case EFAULT:
      return fail(
          StatusCode::kInvalidArgument,
          request.writable
              ? "the memory is not mapped as a whole, is read-only, or belongs to a mapped "
                "file or a device"
              : "the memory is not mapped as a whole, or belongs to a mapped file or a "
                "device",
          "use ordinary memory: copy a mapped file's bytes into an array or into a region of "
          "the device first");
    case EOPNOTSUPP:
    case EINVAL:
      return fail(
          StatusCode::kUnsupported,
          "the adapter or the kernel cannot register this kind of memory (a file on a DAX or "
          "network file system, a device's memory)",
          "use ordinary memory: copy the bytes into an array or into a region of the device "
          "first");
    case ENOSPC:
    case EAGAIN:
      return fail(StatusCode::kResourceExhausted, "the adapter's tables of registrations are full",
                  "hold fewer registrations at once, and larger ones");
    case EIO:
    case ENODEV:
      return fail(StatusCode::kUnavailable, "the adapter has failed or was removed",
                  "look at `dmesg`, then open the device again");
    default:
      return fail(StatusCode::kUnavailable, "the adapter does not register it",
                  "look at `dmesg` and at the adapter's driver");
  }
}

}  // namespace farwrite::fabric::verbs
