#include "bench/stream.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/meter.h"

namespace farwrite::bench {
namespace {

constexpr std::chrono::seconds kTimeout{60};

Status invalid(std::string_view cause, std::string_view remedy) {
  return Status::error(StatusCode::kInvalidArgument, {.operation = "bench p2p"}, cause, remedy);
}

}  // namespace

Result<Outcome> run_stream(const Device& device, Channel& channel, MutableByteView local,
                           const RemoteRegion& remote, const Stream& stream) {
  if (stream.op != Op::kWrite && stream.op != Op::kRead) {
    return invalid("only writes and reads can be streamed", "choose --op write,read");
  }
  if (stream.size == 0 || stream.depth == 0) {
    return invalid("no bytes, or nothing under way", "choose a size and a window of 1 or more");
  }
  const std::uint64_t places = std::min<std::uint64_t>(local.size, remote.size()) / stream.size;
  if (places == 0) {
    return invalid(std::to_string(stream.size) + " bytes exceed the pool",
                   "choose a larger --pool");
  }
  std::vector<Completion> under_way(stream.depth, Completion(Status()));
  // A lane's transfers end in the order in which they began, so what one waits for is half a window
  // ahead: the thread is woken twice a window, and the lane never runs dry.
  const std::uint64_t batch = (stream.depth + 1) / 2;
  std::uint64_t ended = 0;
  const auto wait_for = [&](std::uint64_t count) -> Status {
    if (count > ended)
      FARWRITE_RETURN_IF_ERROR(under_way[(count - 1) % stream.depth].wait(kTimeout));
    for (; ended < count; ++ended) {
      FARWRITE_RETURN_IF_ERROR(under_way[ended % stream.depth].wait(kTimeout));
    }
    return Status();
  };

  Outcome outcome;
  const Meter meter(device, channel);
  for (std::uint64_t i = 0; i < stream.transfers; ++i) {
    if (i - ended == stream.depth) FARWRITE_RETURN_IF_ERROR(wait_for(ended + batch));
    const std::uint64_t offset = i % places * stream.size;
    std::byte* const here = local.data + offset;
    under_way[i % stream.depth] = stream.op == Op::kWrite
                                      ? channel.write({here, stream.size}, remote, offset)
                                      : channel.read({here, stream.size}, remote, offset);
  }
  FARWRITE_RETURN_IF_ERROR(wait_for(stream.transfers));
  if (stream.op == Op::kWrite) FARWRITE_RETURN_IF_ERROR(channel.flush().wait(kTimeout));
  meter.stop(outcome);
  return outcome;
}

}  // namespace farwrite::bench
