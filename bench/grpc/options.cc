#include "options.h"

#include <charconv>
#include <cstdio>
#include <string_view>

namespace {

constexpr const char* kUsage =
    "use --buffers N[,N...] [--serialized] [--acknowledge] [--listen ADDRESS]"
    " [--server-threads N] [--outstanding N] [--argument NAME=INTEGER]... [--reuse]"
    " [--unread]";

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [rest, error] = std::from_chars(text.begin(), text.end(), number);
  return error == std::errc() && rest == text.end();
}

template <typename Number>
bool parse_count(std::string_view text, Number& number) {
  return parse(text, number) && number > 0;
}

bool parse_argument(std::string_view text, std::vector<std::pair<std::string, int>>& arguments) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  return parse(text.substr(equals + 1), arguments.emplace_back(text.substr(0, equals), 0).second);
}

bool parse_buffers(std::string_view text, std::vector<std::size_t>& buffers) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (!parse_count(text.substr(0, comma), buffers.emplace_back())) return false;
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return !buffers.empty();
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string_view name = arguments[at];
    const std::string_view value = at + 1 < arguments.size() ? arguments[at + 1] : "";
    bool valid = true;
    bool takes_value = true;
    if (name == "--buffers") {
      valid = parse_buffers(value, options.buffers);
    } else if (name == "--listen") {
      options.listen = value;
      valid = !value.empty();
    } else if (name == "--server-threads") {
      valid = parse_count(value, options.server_threads);
    } else if (name == "--outstanding") {
      valid = parse_count(value, options.outstanding);
    } else if (name == "--argument") {
      valid = parse_argument(value, options.arguments);
    } else {
      takes_value = false;
      if (name == "--serialized") {
        options.serialized = true;
      } else if (name == "--acknowledge") {
        options.reply = Reply::kAcknowledge;
      } else if (name == "--reuse") {
        options.reuse = true;
      } else if (name == "--unread") {
        options.unread = true;
      } else {
        valid = false;
      }
    }
    if (!valid) {
      std::fprintf(stderr, "grpc_payloads: bad argument %s; %s\n", std::string(name).c_str(),
                   kUsage);
      return std::nullopt;
    }
    at += takes_value ? 1 : 0;
  }
  if (options.buffers.empty()) {
    std::fprintf(stderr, "grpc_payloads: no --buffers; %s\n", kUsage);
    return std::nullopt;
  }
  return options;
}
