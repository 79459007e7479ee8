// DlpackView: an array of another library, seen through DLPack without a copy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <string>

namespace farwrite::python {

// Where an array must be: `type` is DLPack's. The cause says what to do if it is elsewhere.
struct DlpackPlace {
  int type;
  const char* cause_elsewhere;
};

struct DlpackView {
  // Raises InvalidArgument, beginning with `operation`, if the array is not in `place`, is not
  // C-contiguous, has an element type that NumPy has no name for, or is not exported.
  // `exporter`: with __dlpack__, or a capsule.
  static DlpackView of(const std::string& operation, nanobind::handle exporter, DlpackPlace place);

  void* data = nullptr;
  std::size_t bytes = 0;
  int device_id = 0;
  bool writable = false;
  std::string dtype;  // as farwrite.memory.description writes it
  nanobind::tuple shape;
  nanobind::capsule owner;  // keeps the memory alive
};

}  // namespace farwrite::python
