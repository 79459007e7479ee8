// Faults, and what comes of a call under each: the words in which the rows of matrix_rows.cc speak.
// They are those of tests/python/matrix/kinds.py.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/completion.h"
#include "farwrite/status.h"

namespace farwrite::fault {

struct MatrixWorld;

// What a call waits for that is to run out of time.
inline constexpr std::chrono::milliseconds kShort(300);
// What the call of this thread waits for: kShort, or long enough for any machine.
std::chrono::milliseconds& limit();

// What may come of a call: "returns", or the name of a code, "PeerDead".
std::string outcome_name(const Status& status);

struct Outcome {
  Outcome(const char* only) : Outcome({only}) {}  // NOLINT(google-explicit-constructor)
  Outcome(std::initializer_list<const char*> names)
      : mapped(names.begin(), names.end()), other(mapped) {}
  // Over fabrics that map the peer's memory (shm, simulated), and over the others.
  static Outcome by_fabric(const Outcome& mapped, const Outcome& other);

  std::vector<std::string> mapped, other;
};

// By fault: what comes of this call instead of what its kind says.
using Differs = std::map<std::string, Outcome>;

// "none", "killed", ... and what has happened.
const std::map<std::string, std::string>& faults();

// How a call is made, and what comes of it under each fault.
struct Row {
  std::string entry;
  std::string kind;
  Differs differs;
  std::function<Status(MatrixWorld&)> call;

  std::vector<std::string> allowed(const std::string& fault, const std::string& fabric) const;
  // Whether it may run out of time.
  bool runs_out(const std::string& fault, const std::string& fabric) const;
};

// A wait up to the limit; a fact is kOk.
template <typename Value>
Status as_status(Value&& value) {
  using Plain = std::decay_t<Value>;
  if constexpr (std::is_same_v<Plain, Status>) {
    return std::forward<Value>(value);
  } else if constexpr (std::is_same_v<Plain, Completion>) {
    return value.wait(limit());
  } else if constexpr (requires { value.status().code(); }) {
    return value.status();
  } else {
    return Status();
  }
}

template <typename Call>
Row row_of(const char* kind, const char* entry, Call call, Differs differs) {
  return {entry, kind, std::move(differs), [call](MatrixWorld& world) {
            if constexpr (std::is_void_v<decltype(call(world))>) {
              call(world);
              return Status();
            } else {
              return as_status(call(world));
            }
          }};
}

// A fact of this process, or memory that it has.
template <typename Call>
Row fact(const char* entry, Call call, Differs differs = {}) {
  return row_of("fact", entry, call, std::move(differs));
}
// What was counted here: `call` returns counted().
template <typename Call>
Row count(const char* entry, Call call, Differs differs = {}) {
  return row_of("count", entry, call, std::move(differs));
}
// What needs this process alone.
template <typename Call>
Row own(const char* entry, Call call, Differs differs = {}) {
  return row_of("own", entry, call, std::move(differs));
}
// What needs the peer to do something.
template <typename Call>
Row peer(const char* entry, Call call, Differs differs = {}) {
  return row_of("peer", entry, call, std::move(differs));
}
// The end of a handle, also for the second time.
template <typename Call>
Row ending(const char* entry, Call call, Differs differs = {}) {
  return row_of("ending", entry, call, std::move(differs));
}

// Outcomes of several rows.
inline const Outcome kSilent = {"DeadlineExceeded", "PeerSilent"};
inline const Outcome kClosed = {"Cancelled", "FailedPrecondition"};
inline const Outcome kReturns = "returns";
inline const Outcome kLate = "DeadlineExceeded";
inline const Outcome kNoAnswer = {"Unavailable", "DeadlineExceeded"};
// What a peer has lent can be read until its process has ended.
inline const Outcome kStillRead = {"returns", "Unavailable"};
// Memory that was mapped stays as long as the object.
inline const Outcome kMapped = Outcome::by_fabric(kReturns, {"Unsupported", "Cancelled"});
// A stopped peer's memory can be read where it is mapped.
inline const Outcome kOneSided = Outcome::by_fabric(kReturns, kSilent);

}  // namespace farwrite::fault
