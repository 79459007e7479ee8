/// @file
/// The error of a wait for a peer that lasted too long.
#pragma once

#include <string>
#include <string_view>

#include "farwrite/channel_types.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"

FARWRITE_BEGIN
namespace internal {

/// @private kDeadlineExceeded. If the peer is silent, the sentence has that as the cause, and its
/// remedy.
inline Status late(const ErrorContext& where, PeerState peer, std::string_view cause,
                   std::string_view remedy) {
  if (peer != PeerState::kSilent) {
    return Status::error(StatusCode::kDeadlineExceeded, where, cause, remedy);
  }
  return Status::error(StatusCode::kDeadlineExceeded, where,
                       "the peer is silent, and " + std::string(cause),
                       "check that the peer is running and not stopped, or allow more time");
}

}  // namespace internal
FARWRITE_END
