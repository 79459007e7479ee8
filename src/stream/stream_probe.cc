#include "stream/stream_probe.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "farwrite/internal/late.h"

namespace farwrite::stream {
namespace {

constexpr int kTries = 3;
constexpr std::uint64_t kLeastSize = 1024;
constexpr std::uint64_t kChunkProbe = std::uint64_t{4} << 20;
constexpr std::uint64_t kLeastChunk = std::uint64_t{64} << 10;
// A smaller chunk is worth so much bandwidth: the receiver has the first bytes earlier.
constexpr double kAboutAsFast = 1.1;
// No answer takes longer on a channel that works.
constexpr std::chrono::seconds kAnswerTimeout{5};
constexpr std::chrono::minutes kLongestTuning{1};

// Reads lent memory in chunks, several at a time, as a stream does.
class ChunkReader : public std::enable_shared_from_this<ChunkReader> {
 public:
  ChunkReader(std::weak_ptr<StreamLink> link, RemoteRegion lent, std::uint64_t chunk,
              std::function<void()> done)
      : link_(std::move(link)), lent_(std::move(lent)), chunk_(chunk), done_(std::move(done)) {}
  ~ChunkReader() { done_(); }
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // Every read under way keeps the reader, but not the link; what it was for is done when the last
  // one goes.
  void next() {
    const std::shared_ptr<StreamLink> link = link_.lock();
    if (link == nullptr) return;
    const std::uint64_t offset = next_.fetch_add(chunk_);
    if (offset >= lent_.size()) return;
    const std::uint64_t bytes = std::min<std::uint64_t>(chunk_, lent_.size() - offset);
    Result<StreamLink::StreamBuffer> buffer = link->buffer(bytes, true);
    if (!buffer.ok()) return;
    link->channel()
        .read({buffer->data, static_cast<std::size_t>(bytes)}, lent_, offset)
        .on_settled([self = shared_from_this(), owner = buffer->owner](const Status& status) {
          if (status.ok()) self->next();
        });
  }

 private:
  const std::weak_ptr<StreamLink> link_;
  const RemoteRegion lent_;
  const std::uint64_t chunk_;
  const std::function<void()> done_;
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace

void StreamProbe::answer(const StreamFrame& frame, const RemoteRegion& lent) {
  const std::function<void()> done = [weak = std::weak_ptr(link_), number = frame.value] {
    if (const auto link = weak.lock()) link->tell({.kind = FrameKind::kProbed, .value = number});
  };
  if (!lent.valid()) return done();
  if (link_->channel().maps_peer_memory()) {
    if (lent.reached()) return done();
    return link_->reach(lent, [done](const Status&) { done(); });
  }
  const std::uint64_t chunk = std::clamp(frame.stream, kLeastSize, kChunkProbe);
  const auto reader = std::make_shared<ChunkReader>(link_, lent, chunk, done);
  for (int i = 0; i < 4; ++i) reader->next();
}

void StreamProbe::take(std::uint64_t number) {
  const core::Lock lock(mutex_);
  answered_ = std::max(answered_, number);
  changed_.notify_all();
}

void StreamProbe::end(const Status& reason) {
  const core::Lock lock(mutex_);
  ended_ = reason;
  changed_.notify_all();
}

std::uint64_t StreamProbe::next_number() {
  const core::Lock lock(mutex_);
  return ++number_;
}

Result<double> StreamProbe::answered(std::uint64_t number, Clock::time_point begin,
                                     const Completion& sent) {
  if (sent.done()) {
    if (Status status = sent.wait(); !status.ok()) return status;
  }
  core::Lock lock(mutex_);
  const bool come = changed_.wait_for(mutex_, kAnswerTimeout, [&]() FW_REQUIRES(mutex_) {
    return answered_ >= number || !ended_.ok();
  });
  if (!ended_.ok()) return ended_;
  if (!come) {
    return internal::late({.operation = "measure a channel", .peer = link_->channel().peer_name()},
                          link_->channel().peer_state(), "the peer does not answer",
                          "open streams at both ends");
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<double> StreamProbe::message(std::uint64_t bytes) {
  const std::uint64_t number = next_number();
  std::vector<std::byte> message = StreamFrame{.kind = FrameKind::kProbe, .value = number}.head();
  message.resize(message.size() + static_cast<std::size_t>(bytes));
  const Clock::time_point begin = Clock::now();
  return answered(number, begin, link_->channel().send({message.data(), message.size()}));
}

Result<double> StreamProbe::lent(const StreamLink::StreamBuffer& buffer, std::uint64_t bytes,
                                 std::uint64_t chunk) {
  const std::uint64_t number = next_number();
  const std::vector<std::byte> head =
      StreamFrame{.kind = FrameKind::kProbe, .stream = chunk, .value = number}.head();
  const Clock::time_point begin = Clock::now();
  const ByteView memory(buffer.data, static_cast<std::size_t>(bytes));
  return answered(
      number, begin,
      link_->channel().lend({head.data(), head.size()}, memory, [owner = buffer.owner] {}));
}

Result<double> StreamProbe::best(const std::function<Result<double>()>& measure,
                                 Clock::time_point end) {
  Result<double> best = measure();
  for (int i = 1; i < kTries && best.ok() && Clock::now() < end; ++i) {
    const Result<double> again = measure();
    if (!again.ok()) return again;
    best = std::min(best.value(), again.value());
  }
  return best;
}

Status StreamProbe::tune(Options& options, std::chrono::nanoseconds time) {
  const core::Lock one(tuning_);
  const Clock::time_point now = Clock::now();
  const Clock::time_point end = now + std::min<std::chrono::nanoseconds>(time, kLongestTuning);
  const std::uint64_t most = link_->channel().max_message_bytes() - StreamFrame::kHeadBytes;
  Result<StreamLink::StreamBuffer> buffer = link_->buffer(kChunkProbe, true);
  if (!buffer.ok()) return buffer.status();
  const StreamLink::StreamBuffer& memory = buffer.value();
  if (!link_->device().contains(memory.data)) {
    return Status::error(StatusCode::kResourceExhausted, {.operation = "measure a channel"},
                         "no memory is left to lend", "raise send_limit");
  }
  // The first view of the memory, which is not measured.
  if (const auto first = lent(memory, kLeastSize, kLeastSize); !first.ok()) {
    return first.status();
  }
  options.lend_from = most + 1;
  for (std::uint64_t size = kLeastSize; size <= most; size *= 2) {
    if (Clock::now() >= end) break;
    const Result<double> in_message = best([&] { return message(size); }, end);
    if (!in_message.ok()) return in_message.status();
    const Result<double> by_lending = best([&] { return lent(memory, size, size); }, end);
    if (!by_lending.ok()) return by_lending.status();
    if (by_lending.value() <= in_message.value()) {
      options.lend_from = size;
      break;
    }
  }
  if (link_->channel().maps_peer_memory()) return Status();
  std::vector<std::pair<std::uint64_t, double>> chunks;
  for (std::uint64_t chunk = kLeastChunk; chunk <= kChunkProbe; chunk *= 4) {
    if (!chunks.empty() && Clock::now() >= end) break;
    const Result<double> took = best([&] { return lent(memory, kChunkProbe, chunk); }, end);
    if (!took.ok()) return took.status();
    chunks.emplace_back(chunk, took.value());
  }
  const auto fastest =
      std::min_element(chunks.begin(), chunks.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& [chunk, took] : chunks) {
    if (took > fastest->second * kAboutAsFast) continue;
    options.chunk = chunk;
    break;
  }
  return Status();
}

}  // namespace farwrite::stream
