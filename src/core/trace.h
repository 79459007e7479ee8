// Tracing: what the channels of this process did, for a file in Chrome's trace event format, which
// Perfetto and chrome://tracing open. docs/how-to/observe.md says what is in it.
//
// Off unless FARWRITE_TRACE=FILE is set when a device opens. While it is off, a hook costs one
// relaxed load. While it is on, each thread keeps its latest events in a ring of its own; what is
// overwritten is counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "farwrite/status.h"

namespace farwrite::core {

// Events that one thread keeps.
inline constexpr std::size_t kTraceRingEvents = 32768;

enum class TraceKind : std::uint8_t {
  kCall,      // began and ended in one call of this thread
  kInFlight,  // ended later, maybe on another thread; may overlap with others
  kInstant,   // end_ns is begin_ns
};

struct TraceEvent {
  std::string_view name;    // a literal: not copied
  std::string_view fabric;  // a literal: not copied
  std::string_view peer;    // copied
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;  // CLOCK_MONOTONIC, which all processes of a host share
  std::uint64_t bytes = 0;
  std::uint32_t lane = 0;
  std::uint32_t tag = 0;
  TraceKind kind = TraceKind::kCall;
  bool failed = false;
};

namespace internal {
extern std::atomic<bool> tracing;
}  // namespace internal

inline bool trace_on() { return internal::tracing.load(std::memory_order_relaxed); }

std::uint64_t monotonic_ns();

// Now, or 0 while tracing is off.
inline std::uint64_t trace_clock() { return trace_on() ? monotonic_ns() : 0; }

// Keeps the event; nothing while tracing is off. Thread-safe.
void trace(const TraceEvent& event);

// Something that happened now; nothing while tracing is off.
inline void trace_instant(std::string_view name, std::string_view fabric, std::string_view peer,
                          std::uint64_t bytes = 0, std::uint32_t lane = 0, std::uint32_t tag = 0) {
  if (!trace_on()) [[likely]]
    return;
  const std::uint64_t now = monotonic_ns();
  trace({name, fabric, peer, now, now, bytes, lane, tag, TraceKind::kInstant, false});
}

// Starts tracing into FARWRITE_TRACE if it is set and nothing did. Called when a device opens.
void start_trace_from_environment();
// Starts tracing into `file`; write_trace() runs when the process exits, too. A "%p" in the name
// becomes the process id; without one, ".<pid>" is appended, so that the processes of a program do
// not overwrite each other's files. Nothing if tracing is on already.
void start_trace(std::string file);

// Writes what was kept, forgets it, and ends tracing; another start_trace() may follow.
Status stop_trace();

// Writes what was kept so far, replacing the file. Nothing while tracing is off, or if nothing was
// added since the last time. kPermissionDenied if the file cannot be written.
Status write_trace();
// The same, with the error as a warning in the log.
void write_trace_or_warn();

// What write_trace() writes: one JSON object. For tests.
std::string trace_json();
// Where write_trace() writes; empty while tracing is off.
std::string trace_file();

}  // namespace farwrite::core
