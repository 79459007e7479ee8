// The C ABI: versions and statuses.
#include "c_api/handles.h"
#include "core/interrupt.h"

namespace {

static_assert(FW_ERROR_END_OF_STREAM == static_cast<int>(farwrite::StatusCode::kEndOfStream));
static_assert(FW_ERROR_FORKED == static_cast<int>(farwrite::StatusCode::kForked));

const char* name_of(farwrite::StatusCode code) {
  using farwrite::StatusCode;
  switch (code) {
    case StatusCode::kOk:
      return "kOk";
    case StatusCode::kInvalidArgument:
      return "kInvalidArgument";
    case StatusCode::kNotFound:
      return "kNotFound";
    case StatusCode::kAlreadyExists:
      return "kAlreadyExists";
    case StatusCode::kOutOfRange:
      return "kOutOfRange";
    case StatusCode::kPermissionDenied:
      return "kPermissionDenied";
    case StatusCode::kUnauthenticated:
      return "kUnauthenticated";
    case StatusCode::kResourceExhausted:
      return "kResourceExhausted";
    case StatusCode::kFailedPrecondition:
      return "kFailedPrecondition";
    case StatusCode::kUnavailable:
      return "kUnavailable";
    case StatusCode::kDeadlineExceeded:
      return "kDeadlineExceeded";
    case StatusCode::kCancelled:
      return "kCancelled";
    case StatusCode::kPeerDead:
      return "kPeerDead";
    case StatusCode::kPeerSilent:
      return "kPeerSilent";
    case StatusCode::kPeerRestarted:
      return "kPeerRestarted";
    case StatusCode::kVersionMismatch:
      return "kVersionMismatch";
    case StatusCode::kProtocolError:
      return "kProtocolError";
    case StatusCode::kForked:
      return "kForked";
    case StatusCode::kUnsupported:
      return "kUnsupported";
    case StatusCode::kInternal:
      return "kInternal";
    case StatusCode::kEndOfStream:
      return "kEndOfStream";
  }
  return "unknown";
}

}  // namespace

uint32_t fw_abi_version(void) { return FW_ABI_VERSION; }

const char* fw_version(void) { return FARWRITE_VERSION; }

void fw_set_interrupt(int (*interrupted)(void* context), void* context) {
  farwrite::core::Interrupt::set(interrupted, context);
}

int fw_status_code(const fw_status* status) {
  return status == nullptr ? 0 : static_cast<int>(status->status.code());
}

const char* fw_status_code_name(const fw_status* status) {
  return name_of(status == nullptr ? farwrite::StatusCode::kOk : status->status.code());
}

const char* fw_status_message(const fw_status* status) {
  return status == nullptr ? "" : status->status.message().c_str();
}

void fw_status_free(fw_status* status) { delete status; }
