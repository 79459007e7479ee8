// The settings of gRPC and of malloc that every transport gets alike.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <string>

// Keeps freed memory of large payloads for the next one.
void tune_malloc();

void tune(grpc::ServerBuilder& builder);
grpc::ChannelArguments tuned_arguments();

// A line that describes all of this.
std::string tuning();
