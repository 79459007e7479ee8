// Stream, Work and Event: what the engine executes, and in which order.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "context.h"
#include "driver_api.h"
#include "place.h"

namespace farwrite::cuda_double {

struct Double;

// A copy, a fill, or with no bytes a point of its stream. Under Double::lock, but for the bytes.
struct Work {
  explicit Work(Context& which) : context(which) {}

  Context& context;
  unsigned long long number = 0;             // in the order of the calls
  std::vector<std::shared_ptr<Work>> after;  // of other streams, done before this begins
  std::optional<std::chrono::steady_clock::time_point> not_before;
  bool done = false;
  std::size_t size = 0;
  std::size_t moved = 0;
  Span to;
  Span from;  // empty: a fill
  unsigned char fill = 0;
};

// Under Double::lock.
struct Stream {
  Stream(Context& which, bool blocks) : context(which), blocking(blocks) {}

  Context& context;
  const bool blocking;  // the legacy stream and this one wait for each other
  std::deque<std::shared_ptr<Work>> queue;
  std::shared_ptr<Work> last;  // null: never had any
};

// Under Double::lock.
struct Event {
  explicit Event(Context& which) : context(which) {}

  Context& context;
  std::shared_ptr<Work> recorded;  // null: never was
};

std::shared_ptr<Stream> make_stream(Context& context, bool blocking);

// The stream that a handle stands for in this thread, or null: a stream that was created, or one of
// the default streams of `current`.
std::shared_ptr<Stream> find_stream(Double& all, CUstream handle, Context& current);

// The pending work that new work of the stream comes after: the stream's own, and what the legacy
// stream's rule adds.
std::vector<std::shared_ptr<Work>> work_before(const Stream& stream);

// Appends it to the stream, after work_before() and what `work` itself names.
void submit(Double& all, const std::shared_ptr<Stream>& stream, const std::shared_ptr<Work>& work);

}  // namespace farwrite::cuda_double
