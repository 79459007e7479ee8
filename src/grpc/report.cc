#include "grpc/report.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>

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

Report& Report::get() {
  static auto* const report = new Report;  // threads may count until the process ends
  return *report;
}

void Report::stayed(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (++stayed_[reason] > 1) return;
  }
  std::fprintf(stderr, "farwrite: a gRPC connection stays on TCP: %s\n", reason.c_str());
}

void Report::add(const stream::Stats& stats) {
  const std::lock_guard lock(mutex_);
  streams_.messages += stats.messages;
  streams_.message_bytes += stats.message_bytes;
  streams_.lent += stats.lent;
  streams_.lent_bytes += stats.lent_bytes;
  streams_.staged_bytes += stats.staged_bytes;
  streams_.aliased_bytes += stats.aliased_bytes;
  streams_.read_bytes += stats.read_bytes;
}

std::string Report::to_json() const {
  const std::lock_guard lock(mutex_);
  std::string reasons;
  for (const auto& [reason, count] : stayed_) {
    reasons += (reasons.empty() ? "" : ", ") + quoted(reason) + ": " + std::to_string(count);
  }
  const auto field = [](const char* name, std::uint64_t value) {
    return std::string(", \"") + name + "\": " + std::to_string(value);
  };
  return "{\"pid\": " + std::to_string(::getpid()) +
         ", \"program\": " + quoted(program_invocation_short_name) +
         field("upgraded", upgraded_.load()) + ", \"stayed\": {" + reasons + "}" +
         field("sent_bytes", sent_bytes_.load()) + field("received_bytes", received_bytes_.load()) +
         field("messages", streams_.messages) + field("message_bytes", streams_.message_bytes) +
         field("lent", streams_.lent) + field("lent_bytes", streams_.lent_bytes) +
         field("staged_bytes", streams_.staged_bytes) +
         field("aliased_bytes", streams_.aliased_bytes) + field("read_bytes", streams_.read_bytes) +
         "}";
}

}  // namespace farwrite::grpc
