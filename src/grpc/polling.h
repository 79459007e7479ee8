// Polling: which of the program's threads looks for what the pairs bring, and when it may sleep.
//
// Any waiting thread of gRPC can deliver. But events are handed to the completion queue they are
// for, and if the thread that delivers waits for another queue's, a second thread must be woken. So
// a thread that is about to wait for a queue's events looks itself for a moment, if what came last
// was for that queue. Meanwhile peers need not ring for the thread that sleeps in gRPC's poller.
#pragma once

#include <atomic>
#include <cstdint>

#include "farwrite/stream.h"

namespace farwrite::grpc {

class Hub;

// gRPC's own work of the calling thread.
class ThreadWork {
 public:
  ThreadWork() = default;
  ThreadWork(const ThreadWork&) = delete;
  ThreadWork& operator=(const ThreadWork&) = delete;
  virtual ~ThreadWork() = default;

  // A look at the pairs may have ended something, which now has closures to run.
  virtual bool is_due() = 0;
  virtual void run() = 0;
};

// Thread-safe. Lives as long as its hub.
class Polling {
 public:
  explicit Polling(Hub& hub) : hub_(hub) {}
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

  // This thread is about to wait for a queue's events. True: it is the one to look first, and calls
  // look_for_queue().
  bool begins(const void* queue);
  // Looks for Settings::spin. True: something was delivered, so do not wait.
  bool look_for_queue(ThreadWork& work);
  // A queue has an event. True: it is this thread's, which looks for it, so that nothing needs to
  // be woken.
  bool has_event(const void* queue);

  // gRPC's poller is about to sleep in this thread. True: something was delivered, so do not sleep.
  bool before_sleep(ThreadWork& work);
  // The pair's descriptor woke gRPC's poller in this thread, and is to be waited on again.
  void deliver(stream::Streams& streams, ThreadWork& work);

 private:
  bool look(ThreadWork& work);

  Hub& hub_;
  std::atomic<const void*> served_{nullptr};  // the queue of the last event that a pair brought
  std::atomic<bool> looking_{false};          // a thread is in look_for_queue()
};

}  // namespace farwrite::grpc
