#include "stream.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"

namespace farwrite::bench {
namespace {

constexpr std::chrono::seconds kTimeout{60};

Status invalid(std::string_view cause, std::string_view remedy) {
  return Status::error(StatusCode::kInvalidArgument, {.operation = "bench p2p"}, cause, remedy);
}

}  // namespace

Result<StreamTarget> StreamTarget::open(const Channel& channel, const std::string& name) {
  Channel own = channel;
  auto remote = own.lookup(name);
  if (!remote.ok()) return remote.status();
  return StreamTarget(std::move(own), std::move(remote).value());
}

Result<double> StreamTarget::run(MutableByteView local, const Stream& stream) {
  if (stream.op != Op::kWrite && stream.op != Op::kRead) {
    return invalid("only writes and reads can be streamed", "use --op write,read");
  }
  if (stream.size == 0 || stream.depth == 0) {
    return invalid("the size or the window is 0", "use a size and a window of 1 or more");
  }
  const std::uint64_t places = std::min<std::uint64_t>(local.size, remote_.size()) / stream.size;
  if (places == 0) {
    return invalid(std::to_string(stream.size) + " bytes exceed the pool", "use a larger --pool");
  }
  std::vector<Completion> under_way(stream.depth, Completion(Status()));
  // A lane's transfers end in the order in which they began. The loop waits for the transfer half a
  // window ahead, so the thread wakes twice per window and the lane never runs empty.
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

  const Clock::time_point start = Clock::now();
  for (std::uint64_t i = 0; i < stream.transfers; ++i) {
    if (i - ended == stream.depth) FARWRITE_RETURN_IF_ERROR(wait_for(ended + batch));
    const std::uint64_t offset = i % places * stream.size;
    std::byte* const here = local.data + offset;
    under_way[i % stream.depth] = stream.op == Op::kWrite
                                      ? channel_.write({here, stream.size}, remote_, offset)
                                      : channel_.read({here, stream.size}, remote_, offset);
  }
  FARWRITE_RETURN_IF_ERROR(wait_for(stream.transfers));
  if (stream.op == Op::kWrite) FARWRITE_RETURN_IF_ERROR(channel_.flush().wait(kTimeout));
  return seconds_since(start);
}

}  // namespace farwrite::bench
