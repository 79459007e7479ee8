// Who holds Python's global lock (the GIL), and what happens to it when the interpreter goes away.
//
// Farwrite's pollers are threads that Python does not know. They may reach for the GIL only while
// the gate is open; farwrite.lifetime closes it in an atexit handler, before finalization would
// hang or kill a thread that still wants the GIL.
#pragma once

#include <Python.h>

#include <utility>

namespace farwrite::python {

// The GIL is free while this lives. A thread that comes back after the gate was closed sleeps until
// the process ends: Python would otherwise unwind it through C++ frames, which aborts.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

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

// Lets nobody through any more and waits for those inside. Called with the GIL, once, at exit.
void close_gate();

}  // namespace farwrite::python
