#include "target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace farwrite::fuzz {
namespace {

std::vector<Target>& registered() {
  static std::vector<Target> all;
  return all;
}

std::string& input_name() {
  static std::string name;
  return name;
}

}  // namespace

const std::vector<Target>& targets() { return registered(); }

bool add_target(const Target& target) {
  registered().push_back(target);
  return true;
}

void require(bool kept, std::string_view promise, std::source_location where) {
  if (kept) return;
  std::fprintf(stderr, "%s:%u: broken promise: %.*s%s%s\n", where.file_name(),
               static_cast<unsigned>(where.line()), static_cast<int>(promise.size()),
               promise.data(), input_name().empty() ? "" : "; input: ", input_name().c_str());
  std::abort();
}

void require_refusal(const Status& status, std::source_location where) {
  const bool code =
      status.code() == StatusCode::kProtocolError || status.code() == StatusCode::kVersionMismatch;
  require(code, "bad bytes are a protocol error or a version mismatch, not: " + status.to_string(),
          where);
  require(!status.message().empty(), "a refusal says why", where);
}

void set_input_name(std::string name) { input_name() = std::move(name); }

Bytes concatenated(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

ByteView Script::bytes(std::size_t count) {
  const ByteView taken(left_.data, std::min(count, left_.size));
  if (taken.size > 0) left_ = ByteView(left_.data + taken.size, left_.size - taken.size);
  return taken;
}

std::uint64_t Script::integer(std::size_t count) {
  const ByteView raw = bytes(count);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < raw.size; ++i) {
    value |= std::to_integer<std::uint64_t>(raw.data[i]) << (8 * i);
  }
  return value;
}

}  // namespace farwrite::fuzz
