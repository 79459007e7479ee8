// The arguments of the program.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

enum class Reply { kEcho, kAcknowledge };

struct Options {
  // The bytes of each buffer of a payload.
  std::vector<std::size_t> buffers;
  // Protobuf messages, or plain bytes.
  bool serialized = false;
  Reply reply = Reply::kEcho;
  // Where to serve: "127.0.0.1:0" or "unix:PATH"; nothing if the process only calls.
  std::string listen;
  // Threads that serve, each with its own completion queue.
  int server_threads = 1;
  // Calls under way to each server.
  int outstanding = 1;
  // Settings of gRPC, of channels and servers alike.
  std::vector<std::pair<std::string, int>> arguments;
  // The server reads no request, and replies as soon as it has one.
  bool unread = false;
  // Send one payload again and again instead of a newly allocated one for each call.
  bool reuse = false;
};

// Returns nothing, with a sentence on stderr, if the arguments are not valid.
std::optional<Options> parse_options(int argc, char** argv);
