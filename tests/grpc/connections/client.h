// What the cases of connection_client are made of.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "src/proto/grpc/testing/test.grpc.pb.h"

namespace farwrite::connections {

using Stub = grpc::testing::TestService::Stub;
using Stream = grpc::ClientReaderWriter<grpc::testing::StreamingOutputCallRequest,
                                        grpc::testing::StreamingOutputCallResponse>;
using Ports = std::vector<std::string>;

// Bytes of a message, and the longest wait for what must come.
inline constexpr size_t kSmall = 100;
inline constexpr size_t kLarge = 300'000;
inline constexpr std::chrono::seconds kPatience{60};

// Ends the process with status 1 and a sentence unless `holds`.
void require(bool holds, const std::string& what);

// Writes a line that the test waits for.
void announce(const std::string& line);

// A channel with a connection of its own: gRPC would let channels of equal arguments share one.
std::shared_ptr<grpc::Channel> open_channel(const std::string& port,
                                            grpc::ChannelArguments arguments = {});

// The address the server saw. Requires that the call succeeds and returns `bytes` unharmed.
std::string call(Stub& stub, size_t bytes, bool wait_for_ready = false);

// Requires that a message of `bytes` comes back over the stream unharmed.
void echo(Stream& stream, size_t bytes);

// The cases, each with the ports of its server.
void check_health(const Ports& ports);
void list_services(const Ports& ports);
void keep_alive(const Ports& ports);
void outlive_connections(const Ports& ports);
void finish_during_shutdown(const Ports& ports);
void reconnect(const Ports& ports);
void call_once(const Ports& ports);
void fork_with_a_channel(const Ports& ports);
void fork_before_the_first_call(const Ports& ports);
void open_many_channels(const Ports& ports);
void be_cut_in_a_message(const Ports& ports);
void outlast_a_stop(const Ports& ports);
void fill_a_stream(const Ports& ports);
void send_static_messages(const Ports& ports);
void keep_messages_down(const Ports& ports);
void keep_messages_up(const Ports& ports);
void keep_messages_both_ways(const Ports& ports);
void obey(const Ports& ports);

}  // namespace farwrite::connections
