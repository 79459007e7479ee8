// Applies settings of gRPC and of malloc.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "options.h"

// Keeps freed memory of large payloads for the next one.
void tune_malloc();

// Applies the options' arguments.
void tune(grpc::ServerBuilder& builder, const Options& options);
grpc::ChannelArguments channel_arguments(const Options& options);
