/// @file
/// Views of memory that another object owns.
///
/// The public headers stay C++17-clean, so they cannot use std::span.
#pragma once

#include <cstddef>
#include <cstdint>

#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

/// Read-only bytes. The view owns no memory; the memory must outlive the view.
struct ByteView {
  const std::byte* data = nullptr;  ///< the first byte; may be null if size is 0
  std::size_t size = 0;             ///< in bytes

  ByteView() = default;
  /// Views `count` bytes from `bytes` on.
  ByteView(const void* bytes, std::size_t count)
      : data(static_cast<const std::byte*>(bytes)), size(count) {}
};

/// Writable bytes. The view owns no memory; the memory must outlive the view.
struct MutableByteView {
  std::byte* data = nullptr;  ///< the first byte; may be null if size is 0
  std::size_t size = 0;       ///< in bytes

  MutableByteView() = default;
  /// Views `count` bytes from `bytes` on.
  MutableByteView(void* bytes, std::size_t count)
      : data(static_cast<std::byte*>(bytes)), size(count) {}

  /// The same bytes, read-only.
  operator ByteView() const { return {data, size}; }  // NOLINT(google-explicit-constructor)
};

FARWRITE_END
