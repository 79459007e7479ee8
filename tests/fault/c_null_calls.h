// Calls of the C ABI with NULL, by part of it: rows of c_arguments_test.cc.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "farwrite/c_api.h"
#include "fault/fixture.h"

namespace farwrite::fault {

// By the entry that is called.
struct NullCalls {
  std::vector<std::pair<const char*, std::function<fw_status*()>>> refused;  // kInvalidArgument
  std::vector<std::pair<const char*, std::function<bool()>>> nothing;  // true: nothing came of it
};

// A handle that a refused call does not use.
template <typename Handle>
Handle* unused() {
  return reinterpret_cast<Handle*>(std::uintptr_t{64});
}

// An output that a refused call does not write.
template <typename Handle>
class Unwritten {
 public:
  Unwritten() = default;
  ~Unwritten() { EXPECT_EQ(handle_, unused<Handle>()) << "an output was written"; }
  Unwritten(const Unwritten&) = delete;
  Unwritten& operator=(const Unwritten&) = delete;
  operator Handle**() { return &handle_; }  // NOLINT(google-explicit-constructor)

 private:
  Handle* handle_ = unused<Handle>();
};

NullCalls null_handle_calls();
NullCalls null_about_calls();
NullCalls null_tensor_calls();
NullCalls null_stream_calls();
NullCalls null_box_calls();

}  // namespace farwrite::fault
