/// @file
/// kForever: the timeout of a call that waits without a limit.
#pragma once

#include <chrono>

#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

/// A timeout that never passes.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

FARWRITE_END
