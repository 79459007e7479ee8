// Stream and Streams of the library: what each does is written in farwrite/stream.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/channel.h"
#include "device/device.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "farwrite/stream_types.h"

namespace farwrite::stream {

class StreamState;
class StreamsState;

class Stream {
 public:
  using OnRead = std::function<void(Result<std::vector<Slice>>)>;
  using OnDone = std::function<void(const Status&)>;

  Stream() = default;
  explicit Stream(std::shared_ptr<StreamState> state);
  bool valid() const { return handle_ != nullptr; }

  void write(std::vector<Slice> slices, OnDone done);
  void read(OnRead on_read);
  void finish(OnDone done);
  void abort(const Status& reason);

 private:
  struct Handle;
  std::shared_ptr<Handle> handle_;
};

class Streams {
 public:
  static Result<Streams> create(Device device, Channel channel, const Options& options = {});

  Streams() = default;
  explicit Streams(std::shared_ptr<StreamsState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  Result<Stream> open(std::uint64_t number);
  Status tune(std::chrono::nanoseconds time = std::chrono::milliseconds(50));
  bool poll();
  Result<int> descriptor();
  bool arm();
  void disarm();
  Options options() const;
  Stats stats() const;

 private:
  std::shared_ptr<StreamsState> state_;
};

}  // namespace farwrite::stream
