#include "tuning.h"

#include <malloc.h>

void tune_malloc() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the maximum of glibc
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 64 << 20);
}

void tune(grpc::ServerBuilder& builder, const Options& options) {
  for (const auto& [name, value] : options.arguments) builder.AddChannelArgument(name, value);
}

grpc::ChannelArguments channel_arguments(const Options& options) {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : options.arguments) arguments.SetInt(name, value);
  // A connection for each channel, whatever other channels of the process have.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}
