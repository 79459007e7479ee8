// Who holds Python's global lock (the GIL), and what happens to it when the interpreter goes away.
//
// Farwrite's pollers are threads that Python does not know. They may reach for the GIL only while
// the gate is open; farwrite.lifetime.at_exit closes it in an atexit handler, before the
// interpreter is finalized.
//
// Threads of Python may be anywhere at that time. Python before 3.14 ends a thread that wants the
// GIL of a finalizing interpreter with pthread_exit(). That unwinds the thread's stack, and
// destructors, nanobind and other noexcept code would turn the unwinding into an abort. So every
// call of ours that takes the GIL or runs Python code goes through `outlive_python`.
//
// A free-threaded Python has no GIL. There, to hold the GIL is to be attached to the interpreter,
// and other threads run Python and these bindings at the same time. So the GIL guards no data here:
// what threads may share is atomic, has a lock, or does not change.
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <utility>

namespace farwrite::python {

// For a thread that must not go on: the end of the process ends it.
[[noreturn]] void sleep_until_exit();

// Runs `call`: one call of Python's C API that takes the GIL or may run Python code. Does not
// return if Python ends the thread in it. `call` must own no Python object, because unwinding would
// let go of it without the GIL.
template <typename Call>
auto outlive_python(Call&& call) {
  try {
    return std::forward<Call>(call)();
  }
#ifdef _LIBCPP_VERSION
  catch (...) {
    // libc++ has no name for this unwinding, which is the only one that no throw began.
    if (abi::__cxa_current_exception_type() == nullptr) sleep_until_exit();
    throw;
  }
#else
  catch (abi::__forced_unwind&) {
    sleep_until_exit();
  }
#endif
}

// The GIL is free while this lives, or until end().
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    if (state_ != nullptr) end();
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  // Takes the GIL again, once.
  void end() {
    outlive_python([state = std::exchange(state_, nullptr)] { PyEval_RestoreThread(state); });
  }

 private:
  PyThreadState* state_;
};

// Holds the GIL while it lives, from any thread, unless the gate is closed: test held().
class GilHold {
 public:
  GilHold();
  ~GilHold();
  GilHold(const GilHold&) = delete;
  GilHold& operator=(const GilHold&) = delete;

  bool held() const { return held_; }

 private:
  bool held_;
  PyGILState_STATE state_{};
};

// Runs `call` without the GIL. `call` must not touch a Python object.
template <typename Call>
auto without_gil(Call&& call) {
  const GilRelease released;
  return std::forward<Call>(call)();
}

// Lets nothing through any more and waits for those inside. Called with the GIL, once, at exit.
void close_gate();

}  // namespace farwrite::python
