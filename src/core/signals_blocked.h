// SignalsBlocked: while it lives, threads that this one starts take none of the process's signals.
#pragma once

#include <pthread.h>

#include <csignal>

namespace farwrite::core {

// A new thread inherits the mask. Signals are the application's (in Python: the main thread's). A
// fault in a thread is its own, and its handler must run.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      ::sigdelset(&blocked, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace farwrite::core
