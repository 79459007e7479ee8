// Where a process' device listens when nothing said where, and what peers are told of it and of its
// task.
#pragma once

#include <string>
#include <string_view>

#include "tensorflow/core/protobuf/tensorflow_server.pb.h"

namespace farwrite::plugin {

// The host of the task's own address in the cluster: "10.0.0.2" for "10.0.0.2:2222", "::1" for
// "[::1]:2222". Peers reach the task's server by it, so they reach the device there, too.
// "127.0.0.1" for a task that calls itself localhost, or that the cluster does not name.
std::string own_host(const tensorflow::ServerDef& server_def);

// The port of the task's gRPC server; 0 if the kernel chooses it, or the cluster names none.
int own_port(const tensorflow::ServerDef& server_def);

// Of a process without an address in a cluster: the one of its host from which it reaches this one,
// "host:port". "127.0.0.1" for a loopback address, or if there is none.
std::string host_towards(const std::string& address);

// "/job:ps/replica:0/task:1", as TensorFlow names devices' tasks.
std::string task_name(const tensorflow::ServerDef& server_def);

// "host:port", an IPv6 host in brackets.
std::string join_host_port(const std::string& host, std::string_view port);

// Of an endpoint "host:port": whether only its own host reaches it.
bool is_loopback(std::string_view endpoint);

// The endpoint that peers use: one that listens everywhere is told by `own_host`.
std::string advertised(const std::string& endpoint, const std::string& own_host);

}  // namespace farwrite::plugin
