#include "stats/transfer_log.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "tensorflow/core/framework/step_stats.pb.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;
using tsl::profiler::TraceMeEncode;
using tsl::profiler::TraceMeLevel;

constexpr int kLevel = TraceMeLevel::kInfo;  // what the profiler records by default
constexpr double kMiB = 1048576.0;

const char* name_of(Transfer::Kind kind) {
  switch (kind) {
    case Transfer::Kind::kSendTensor:
      return "SendTensor";
    case Transfer::Kind::kRecvTensor:
      return "RecvTensor";
    case Transfer::Kind::kSendBuf:
      return "SendBuf";
    case Transfer::Kind::kRecvBuf:
      break;
  }
  return "RecvBuf";
}

bool is_send(Transfer::Kind kind) {
  return kind == Transfer::Kind::kSendTensor || kind == Transfer::Kind::kSendBuf;
}

template <typename... Values>
std::string printed(const char* format, Values... values) {
  char text[64];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

// The next of the parts between semicolons.
std::string_view next_part(std::string_view* rest) {
  const std::size_t end = rest->find(';');
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return part;
}

// As stock's WorkerCacheLogger writes both.
std::string size_label(std::uint64_t bytes) {
  const double size = static_cast<double>(bytes);
  if (size < 0.1 * kMiB) return "[" + std::to_string(bytes) + "B] ";
  return printed("[%.1fMB] ", size / kMiB);
}

std::string rate_label(std::uint64_t bytes, std::int64_t microseconds) {
  const double megabits = 8.0 * static_cast<double>(bytes) / static_cast<double>(microseconds);
  if (megabits >= 1000.0) return printed("[%.1fGb/s] ", megabits / 1000.0);
  return printed("[%fMb/s] ", megabits);
}

}  // namespace

TransferLog& TransferLog::of_process() {
  static TransferLog* const only = new TransferLog;  // outlives every thread
  return *only;
}

std::int64_t TransferLog::start() const {
  if (!recording() && !tsl::profiler::TraceMeRecorder::Active(kLevel)) return 0;
  return static_cast<std::int64_t>(tf::Env::Default()->NowMicros());
}

bool TransferLog::retrieve(std::int64_t step, tf::StepStats* stats) {
  tf::StepStats own;
  if (!records_.RetrieveLogs(step, &own)) return false;
  for (tf::DeviceStepStats& device : *own.mutable_dev_stats()) {
    auto& known = *stats->mutable_dev_stats();
    const auto same = std::find_if(known.begin(), known.end(), [&](const auto& entry) {
      return entry.device() == device.device();
    });
    if (same == known.end()) {
      stats->add_dev_stats()->Swap(&device);
    } else {
      same->MergeFrom(device);
    }
  }
  return true;
}

Transfer::Transfer(Kind kind, std::int64_t step, const tf::Rendezvous::ParsedKey& key,
                   std::int64_t started)
    : kind_(kind),
      step_(step),
      started_(started),
      tensor_(key.edge_name),
      from_(key.src_device),
      to_(key.dst_device),
      span_([kind] { return std::string(name_of(kind)); }, kLevel) {}

Transfer::Transfer(Kind kind, std::int64_t step, std::string_view key, std::int64_t started)
    : kind_(kind),
      step_(step),
      started_(started),
      span_([kind] { return std::string(name_of(kind)); }, kLevel) {
  next_part(&key);  // "collective"
  from_ = next_part(&key);
  to_ = next_part(&key);
  tensor_ = key;
}

void Transfer::went(std::string_view way, std::string_view fabric, std::uint64_t bytes) {
  went_ = true;
  way_ = way;
  fabric_ = fabric;
  bytes_ = bytes;
}

Transfer::~Transfer() {
  if (!went_) return;
  span_.AppendMetadata([this] {
    return TraceMeEncode({{"tensor", tensor_},
                          {"bytes", bytes_},
                          {"way", way_},
                          {"fabric", fabric_},
                          {"from", from_},
                          {"to", to_},
                          {"step_id", step_}});
  });
  if (TransferLog::of_process().recording()) record();
}

void Transfer::record() {
  const auto now = static_cast<std::int64_t>(tf::Env::Default()->NowMicros());
  const std::int64_t end = std::max(now, started_ + 1);
  // As stock does: the clocks of two hosts differ, and nothing arrives before it was asked for. The
  // master switches records on while the step runs already, so the beginning may be unknown.
  const std::int64_t began = std::max(started_, sent_);
  const std::int64_t start = began == 0 ? end - 1 : std::min(began, end - 1);
  std::string how = "by " + std::string(way_);
  if (!fabric_.empty()) how.append(" over ").append(fabric_);
  const std::string tensor(tensor_);
  const std::string from(from_);
  const std::string to(to_);
  tf::WorkerCacheLogger& records = TransferLog::of_process().records_;
  if (is_send(kind_)) {
    // The form that timeline.py parses: "name = op(inputs)". It belongs to the sender's device.
    const std::string label =
        size_label(bytes_) + tensor + " = " + name_of(kind_) + "(to " + to + ", " + how + ")";
    records.RecordDataTransfer(step_, start, end, tensor, to, from,
                               static_cast<std::int64_t>(bytes_), label, name_of(kind_));
    return;
  }
  const std::string rate = began == 0 ? "" : rate_label(bytes_, end - start);
  const std::string label =
      size_label(bytes_) + rate + tensor + " from " + from + " to " + to + " " + how;
  records.RecordDataTransfer(step_, start, end, tensor, from, to, static_cast<std::int64_t>(bytes_),
                             label, name_of(kind_));
}

}  // namespace farwrite::plugin
