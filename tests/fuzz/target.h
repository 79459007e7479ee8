// Fuzz targets: functions that take whatever a peer may send and check what decoders promise.
//
// A target is one file, <name>_fuzz.cc: what it runs, and the seeds that start its corpus, made by
// Farwrite's own encoders. libFuzzer runs it alone (entry.cc); the unit tests run all of them over
// their corpora under every compiler and sanitizer (replay_test.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::fuzz {

using Bytes = std::vector<std::byte>;
// By file name.
using Seeds = std::map<std::string, Bytes>;

struct Target {
  std::string_view name;  // of the file, without _fuzz.cc
  void (*run)(ByteView);  // aborts when a promise is broken
  Seeds (*seeds)();       // the same bytes at every call
};

// Every target of this program. A file adds its own while the program starts.
const std::vector<Target>& targets();
bool add_target(const Target& target);

// Aborts with the promise, its place and the input of set_input_name() unless it was kept.
void require(bool kept, std::string_view promise,
             std::source_location where = std::source_location::current());
// What a decoder may say to bad bytes: kProtocolError or kVersionMismatch, in words.
void require_refusal(const Status& status,
                     std::source_location where = std::source_location::current());
// Names the input under test in the message of require().
void set_input_name(std::string name);

inline ByteView view_of(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }
Bytes concatenated(std::initializer_list<Bytes> parts);

// Takes an input apart into what a target needs besides peer bytes. Zero past the end.
class Script {
 public:
  explicit Script(ByteView input) : left_(input) {}

  bool empty() const { return left_.size == 0; }
  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }
  // The next `count` bytes, or as many as are left.
  ByteView bytes(std::size_t count);
  ByteView rest() { return bytes(left_.size); }

 private:
  std::uint64_t integer(std::size_t count);

  ByteView left_;
};

// What every message with from_bytes() and to_bytes() promises, whatever it leaves unread.
template <typename Message>
void expect_stable(ByteView bytes) {
  auto decoded = Message::from_bytes(bytes);
  if (!decoded.ok()) {
    require_refusal(decoded.status());
    return;
  }
  const auto encoded = decoded->to_bytes();
  auto again = Message::from_bytes({encoded.data(), encoded.size()});
  require(again.ok(), "what we encode can be decoded");
  require(again->to_bytes() == encoded, "decoding what we encoded changes nothing");
}

// And what those promise that say nothing of what they were not told.
template <typename Message>
void expect_round_trip(ByteView bytes) {
  expect_stable<Message>(bytes);
  auto decoded = Message::from_bytes(bytes);
  if (!decoded.ok()) return;
  require(decoded->to_bytes().size() <= bytes.size,
          "a message grows by no byte on its way through us");
}

}  // namespace farwrite::fuzz
