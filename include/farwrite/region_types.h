/// @file
/// What describes registered memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

/// The longest name of a published region, in bytes.
inline constexpr std::size_t kMaxNameBytes = 255;
/// The longest description of a published region, in bytes.
inline constexpr std::size_t kMaxDescriptionBytes = 1024;

/// How a peer may use a region.
enum class Access : std::uint8_t {
  kRead = 1,   ///< read or alias it
  kWrite = 2,  ///< write it
};

/// Identifies a device. It stays the same over restarts on the same endpoint of the same host; the
/// epoch distinguishes the starts.
using DeviceUuid = std::array<std::uint8_t, 16>;

FARWRITE_END
