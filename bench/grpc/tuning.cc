#include "tuning.h"

#include <malloc.h>

#include <array>
#include <utility>

namespace {

constexpr int kFrameBytes = 1 << 20;
constexpr int kLookaheadBytes = 64 << 20;
constexpr int kReadChunkBytes = 1 << 20;

constexpr std::array<std::pair<const char*, int>, 6> kArguments{{
    {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1},
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes},
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes},
    {GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes},
    {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 * kReadChunkBytes},
}};

}  // namespace

void tune_malloc() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the maximum of glibc
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 64 << 20);
}

void tune(grpc::ServerBuilder& builder) {
  for (const auto& [name, value] : kArguments) builder.AddChannelArgument(name, value);
}

grpc::ChannelArguments tuned_arguments() {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : kArguments) arguments.SetInt(name, value);
  // A connection for each channel, whatever other channels of the process have.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

std::string tuning() {
  std::string text = "malloc keeps up to 1 GiB of freed memory, blocks up to 32 MiB never mmap";
  for (const auto& [name, value] : kArguments)
    text += std::string("; ") + name + "=" + std::to_string(value);
  return text;
}
