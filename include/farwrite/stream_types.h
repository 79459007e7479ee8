/// @file
/// What describes byte streams.
#pragma once

#include <cstdint>
#include <memory>

#include "farwrite/bytes.h"
#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN
namespace stream {

/// Bytes and what keeps them valid. The bytes must not change while a copy of `owner` exists.
struct Slice {
  ByteView bytes = {};                     ///< valid as long as `owner`
  std::shared_ptr<const void> owner = {};  ///< null for bytes that outlive every stream
};

/// How streams move bytes. All sizes in bytes.
struct Options {
  /// Slices of at least this size are lent and read by the peer; shorter ones are gathered into
  /// messages. Streams::tune() finds a value.
  std::uint64_t lend_from = 16384;
  /// What is read, or copied, at a time, so that the receiver has the first bytes early.
  /// Streams::tune() finds a value.
  std::uint64_t chunk = std::uint64_t{1} << 20;
  /// The most bytes of one stream that are lent and not returned. Further bytes wait at the sender.
  /// Both sides need the same value: a stream between different ones ends with an error that names
  /// both, as soon as bytes are sent.
  std::uint64_t window = std::uint64_t{32} << 20;
  /// The most bytes of one stream in messages that the receiving program has not taken; each
  /// message counts 64 more. At least max_message_bytes() of the channel. Both sides need the same
  /// value, as for `window`.
  std::uint64_t message_window = std::uint64_t{256} << 10;
  /// A write is done when at most so many bytes still wait at the sender, up to its own last one.
  std::uint64_t write_bound = std::uint64_t{1} << 20;
  /// The program delivers what comes by Streams::poll(), between waits on Streams::descriptor().
  /// Otherwise the pollers of the device deliver.
  bool polled = false;
  /// The most received bytes of one stream that slices may keep in the peer's memory (on one host)
  /// or in this device's, at most half of `window`. Beyond it, bytes are copied to memory of their
  /// own, so that a program that keeps its slices does not stop its peer.
  std::uint64_t held = std::uint64_t{16} << 20;
};

/// Counts of all streams of a channel, since they were created.
struct Stats {
  std::uint64_t messages = 0;         ///< sent, that hold bytes of slices
  std::uint64_t message_bytes = 0;    ///< sent in messages
  std::uint64_t lent = 0;             ///< regions that were lent, of one slice or several
  std::uint64_t lent_bytes = 0;       ///< bytes of them
  std::uint64_t staged_bytes = 0;     ///< of lent_bytes, copied to where a peer can read them
  std::uint64_t aliased_bytes = 0;    ///< received without a copy
  std::uint64_t read_bytes = 0;       ///< received by a read from the peer's memory
  std::uint64_t held_back_bytes = 0;  ///< of read_bytes, read because Options::held was reached
  std::uint64_t credits = 0;          ///< messages that only returned credit
  std::uint64_t waits = 0;  ///< times that a sender had bytes and had to wait for its peer
};

}  // namespace stream
FARWRITE_END
