// CudaBytes: memory of a GPU as Python holds it. The CPU must not touch it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "farwrite/bytes.h"

namespace farwrite::python {

// Python does not change it, so threads may share it. `owner` keeps the memory alive.
struct CudaBytes {
  std::byte* data = nullptr;
  std::size_t size = 0;
  int ordinal = 0;
  bool writable = false;
  nanobind::object owner;

  // Raises Forked in a child of the process that has the memory, and InvalidArgument if `writes`
  // and it is read-only.
  void check_access(bool writes) const;
};

}  // namespace farwrite::python
