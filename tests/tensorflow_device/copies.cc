#include "copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "counters.h"
#include "tensorflow/core/framework/tensor_reference.h"
#include "tensorflow/core/platform/env.h"

namespace fartest {
namespace {

namespace tf = ::tensorflow;

// On a thread of TensorFlow, because what is called may wait for the device.
void call(tf::StatusCallback done, const absl::Status& status) {
  tf::Env::Default()->SchedClosure([done = std::move(done), status] { done(status); });
}

const char* name_of(Direction direction) {
  return direction == Direction::kToHost ? "to the host" : "to the device";
}

// Where the pieces of a copy are, the last one first in every other copy.
struct Pieces {
  std::size_t bytes;
  std::size_t count;
  bool backwards;

  std::size_t begin(std::size_t piece) const { return bytes * piece / count; }

  void copy(std::size_t number, char* to, const char* from) const {
    const std::size_t piece = backwards ? count - 1 - number : number;
    std::memcpy(to + begin(piece), from + begin(piece), begin(piece + 1) - begin(piece));
  }
};

Pieces pieces_of(std::size_t bytes, bool backwards) {
  const std::size_t piece = settings().piece_bytes;
  return {bytes, std::max((bytes + piece - 1) / piece, std::min<std::size_t>(bytes, 2)), backwards};
}

void count_copy(Direction direction, std::size_t bytes) {
  Counters& counted = counters();
  const bool to_host = direction == Direction::kToHost;
  ++(to_host ? counted.copies_to_host : counted.copies_to_device);
  (to_host ? counted.bytes_to_host : counted.bytes_to_device) += bytes;
  ++counted.copies_under_way;
}

}  // namespace

void Copies::CopyCPUTensorToDevice(const tf::Tensor* cpu_tensor, tf::Device*,
                                   tf::Tensor* device_tensor, tf::StatusCallback done,
                                   bool sync_dst_compute) const {
  copy(Direction::kToDevice, *cpu_tensor, *device_tensor, sync_dst_compute, std::move(done));
}

void Copies::CopyDeviceTensorToCPU(const tf::Tensor* device_tensor, absl::string_view, tf::Device*,
                                   tf::Tensor* cpu_tensor, tf::StatusCallback done) {
  copy(Direction::kToHost, *device_tensor, *cpu_tensor, true, std::move(done));
}

void Copies::copy(Direction direction, const tf::Tensor& from, const tf::Tensor& to,
                  bool after_compute, tf::StatusCallback done) const {
  const bool to_host = direction == Direction::kToHost;
  const std::size_t bytes = from.TotalBytes();
  if (bytes == 0) return call(std::move(done), absl::OkStatus());
  const tf::Tensor& inside = to_host ? from : to;
  const tf::Tensor& outside = to_host ? to : from;
  if (to.TotalBytes() != bytes || !engine_.memory.contains(inside.data(), bytes) ||
      engine_.memory.contains(outside.data(), bytes)) {
    ++counters().stray_copies;
    return call(std::move(done),
                absl::InternalError(std::string("FARTEST: a copy ") + name_of(direction) +
                                    " names memory that is not where it says"));
  }
  count_copy(direction, bytes);
  const Faults::Verdict verdict = Faults::of_process().next(direction);
  if (verdict.held != Faults::kNotHeld) ++counters().held_copies;
  Streams& streams = *engine_.streams;
  const Pieces pieces = pieces_of(bytes, streams.draw(2) == 0);
  DeviceAllocator* const allocator = &engine_.allocator;
  void* const target = to.data();
  if (!to_host) allocator->begin_write(target);
  const char* const source =
      to_host ? engine_.memory.inside(from.data()) : static_cast<const char*>(from.data());
  char* const sink = to_host ? static_cast<char*>(target) : engine_.memory.inside(target);

  Streams::Work work;
  // One that fails has been made up to its middle.
  work.pieces = verdict.fails ? (pieces.count + 1) / 2 : pieces.count;
  work.piece = [pieces, sink, source](std::size_t number) { pieces.copy(number, sink, source); };
  work.delay = streams.draw_delay();
  work.held = verdict.held;
  if (after_compute) work.after.push_back(streams.end_of(Streams::kCompute));
  work.finished = [direction, verdict, to_host, allocator, target, kept = tf::TensorReference(from),
                   done = std::move(done)]() mutable {
    if (!to_host) allocator->end_write(target);
    kept.Unref();
    --counters().copies_under_way;
    if (verdict.held != Faults::kNotHeld) --counters().held_copies;
    if (verdict.fails) ++counters().failed_copies;
    call(std::move(done), verdict.fails ? absl::InternalError(std::string("FARTEST: a copy ") +
                                                              name_of(direction) + " failed")
                                        : absl::OkStatus());
  };
  const int stream = (to_host ? Streams::kToHost : Streams::kToDevice) +
                     static_cast<int>(streams.draw(2));  // of the two in that direction
  streams.enqueue(static_cast<Streams::Stream>(stream), std::move(work));
}

void Copies::CopyTensorInSameDevice(const tf::Tensor* input_tensor, tf::Device*,
                                    tf::Tensor* output_tensor, tf::StatusCallback done) const {
  const std::size_t bytes = input_tensor->TotalBytes();
  if (bytes == 0) return call(std::move(done), absl::OkStatus());
  ++counters().copies_inside;
  const char* const from = engine_.memory.inside(input_tensor->data());
  char* const to = engine_.memory.inside(output_tensor->data());
  Streams::Work work;
  work.piece = [from, to, bytes](std::size_t) { std::memcpy(to, from, bytes); };
  work.finished = [kept = tf::TensorReference(*input_tensor), done = std::move(done)]() mutable {
    kept.Unref();
    call(std::move(done), absl::OkStatus());
  };
  engine_.streams->enqueue(Streams::kCompute, std::move(work));
}

}  // namespace fartest
