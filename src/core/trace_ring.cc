// A trace's events: how they are kept, and how they become JSON.
#include "core/trace_ring.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <queue>

#include "core/mutex.h"

namespace farwrite::core {
namespace {

// Bounds a ring's list of peers; a program that meets more has them lumped together.
constexpr std::size_t kMaxPeers = 1024;
// Rows for operations in flight stand beside the threads; no thread has such a number.
constexpr std::uint32_t kFirstRow = 1U << 30;

// `text` in quotes. What is no UTF-8 becomes '?': JSON has no other bytes.
void append_quoted(std::string& json, std::string_view text) {
  json += '"';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += text[at];
    } else if (c < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      json += escaped;
    } else {
      json += c < 0x80 ? text[at] : '?';
    }
  }
  json += '"';
}

// Microseconds with three decimals: no digit of a nanosecond is lost.
std::string microseconds(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%llu.%03llu", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned long long>(ns % 1000));
  return text;
}

class Json {
 public:
  explicit Json(std::uint32_t pid) : pid_(std::to_string(pid)) {}

  void metadata(std::string_view what, std::uint32_t thread, std::string_view key,
                std::string_view value) {
    begin("M", what, thread);
    text_ += ",\"args\":{";
    append_quoted(text_, key);
    text_ += ':';
    append_quoted(text_, value);
    text_ += "}}";
  }

  void event(const KeptEvent& kept, std::uint32_t thread, std::string_view peer) {
    const TraceEvent& event = kept.event;
    const bool instant = event.kind == TraceKind::kInstant;
    begin(instant ? "i" : "X", event.name, thread);
    text_ += ",\"cat\":\"farwrite\",\"ts\":" + microseconds(event.begin_ns);
    if (instant) {
      text_ += ",\"s\":\"t\"";
    } else {
      text_ += ",\"dur\":" + microseconds(event.end_ns - event.begin_ns);
    }
    text_ += ",\"args\":{\"bytes\":" + std::to_string(event.bytes) +
             ",\"lane\":" + std::to_string(event.lane) + ",\"tag\":" + std::to_string(event.tag) +
             ",\"peer\":";
    append_quoted(text_, peer);
    text_ += ",\"fabric\":";
    append_quoted(text_, event.fabric);
    if (event.failed) text_ += ",\"failed\":true";
    text_ += "}}";
  }

  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view phase, std::string_view name, std::uint32_t thread) {
    if (!text_.empty()) text_ += ",\n";
    text_ += "{\"ph\":";
    append_quoted(text_, phase);
    text_ += ",\"name\":";
    append_quoted(text_, name);
    text_ += ",\"pid\":" + pid_ + ",\"tid\":" + std::to_string(thread);
  }

  const std::string pid_;
  std::string text_;
};

// Spreads operations in flight over as many rows as overlap at once: on one row, spans must not.
class Rows {
 public:
  // To be called in the order of begin_ns.
  std::uint32_t row_for(const TraceEvent& event) {
    std::uint32_t row = count_;
    if (!busy_.empty() && busy_.top().first <= event.begin_ns) {
      row = busy_.top().second;
      busy_.pop();
    } else {
      ++count_;
    }
    busy_.emplace(event.end_ns, row);
    return kFirstRow + row;
  }
  std::uint32_t count() const { return count_; }

 private:
  using Entry = std::pair<std::uint64_t, std::uint32_t>;  // busy until, row
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> busy_;
  std::uint32_t count_ = 0;
};

}  // namespace

void TraceRing::add(const TraceEvent& event, std::uint32_t thread) {
  const Lock lock(mutex_);
  KeptEvent kept{event, number_of(event.peer), thread};
  kept.event.peer = {};
  if (events_.size() < capacity_) {
    events_.push_back(kept);
  } else {
    events_[added_ % capacity_] = kept;
  }
  ++added_;
}

std::uint32_t TraceRing::number_of(std::string_view peer) {
  const auto found = std::find(peers_.begin(), peers_.end(), peer);
  if (found != peers_.end()) return static_cast<std::uint32_t>(found - peers_.begin());
  if (peers_.size() >= kMaxPeers) return number_of(peers_.back());
  peers_.emplace_back(peers_.size() + 1 == kMaxPeers ? "other peers" : peer);
  return static_cast<std::uint32_t>(peers_.size() - 1);
}

void TraceRing::copy_to(TraceSnapshot& snapshot) const {
  const Lock lock(mutex_);
  const auto first_peer = static_cast<std::uint32_t>(snapshot.peers.size());
  snapshot.peers.insert(snapshot.peers.end(), peers_.begin(), peers_.end());
  for (KeptEvent kept : events_) {
    kept.peer += first_peer;
    snapshot.events.push_back(kept);
  }
  snapshot.lost += added_ - events_.size();
}

std::uint64_t TraceRing::added() const {
  const Lock lock(mutex_);
  return added_;
}

void TraceRing::clear() {
  const Lock lock(mutex_);
  events_.clear();
  peers_.clear();
  added_ = 0;
}

std::string to_json(TraceSnapshot snapshot, std::uint32_t pid, std::string_view process) {
  std::sort(
      snapshot.events.begin(), snapshot.events.end(),
      [](const KeptEvent& a, const KeptEvent& b) { return a.event.begin_ns < b.event.begin_ns; });
  Json json(pid);
  Rows rows;
  json.metadata("process_name", pid, "name", process);
  if (snapshot.lost > 0) {
    json.metadata("process_labels", pid, "labels",
                  std::to_string(snapshot.lost) + " earlier events lost");
  }
  for (const auto& [thread, name] : snapshot.threads) {
    json.metadata("thread_name", thread, "name", name);
  }
  for (const KeptEvent& kept : snapshot.events) {
    const bool in_flight = kept.event.kind == TraceKind::kInFlight;
    json.event(kept, in_flight ? rows.row_for(kept.event) : kept.thread, snapshot.peers[kept.peer]);
  }
  for (std::uint32_t row = 0; row < rows.count(); ++row) {
    json.metadata("thread_name", kFirstRow + row, "name", "in flight " + std::to_string(row));
  }
  return "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\",\"lost\":" +
         std::to_string(snapshot.lost) + "},\"traceEvents\":[\n" + json.take() + "\n]}\n";
}

}  // namespace farwrite::core
