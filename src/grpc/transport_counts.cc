#include "grpc/transport_counts.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>

#include "core/counter_table.h"
#include "core/mutex.h"

namespace farwrite::grpc {
namespace {

std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return quoted + '"';
}

}  // namespace

TransportCounts& TransportCounts::get() {
  static auto* const report = new TransportCounts;  // threads may count until the process ends
  return *report;
}

void TransportCounts::stayed(const std::string& reason) {
  {
    const core::Lock lock(mutex_);
    if (++stayed_[reason] > 1) return;
  }
  std::fprintf(stderr, "farwrite: a gRPC connection stays on TCP: %s\n", reason.c_str());
}

void TransportCounts::add(const stream::Stats& stats) {
  const core::Lock lock(mutex_);
  for (const auto& row : core::counters<stream::Stats>().rows) {
    streams_.*row.field += stats.*row.field;
  }
}

std::string TransportCounts::to_json() const {
  const core::Lock lock(mutex_);
  std::string reasons;
  for (const auto& [reason, count] : stayed_) {
    reasons += (reasons.empty() ? "" : ", ") + quoted(reason) + ": " + std::to_string(count);
  }
  const auto field = [](std::string_view name, std::uint64_t value) {
    return ", \"" + std::string(name) + "\": " + std::to_string(value);
  };
  std::string streams;
  for (const auto& row : core::counters<stream::Stats>().rows) {
    streams += field(row.name, streams_.*row.field);
  }
  return "{\"pid\": " + std::to_string(::getpid()) +
         ", \"program\": " + quoted(program_invocation_short_name) +
         field("upgraded", upgraded_.load()) + ", \"stayed\": {" + reasons + "}" +
         field("sent_bytes", sent_bytes_.load()) + field("received_bytes", received_bytes_.load()) +
         field("borrowed_bytes", borrowed_bytes_.load()) + streams + "}";
}

}  // namespace farwrite::grpc
