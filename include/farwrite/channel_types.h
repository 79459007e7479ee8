/// @file
/// What describes a channel and its peer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "farwrite/endpoint.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/options.h"
#include "farwrite/region_types.h"

FARWRITE_BEGIN

/// The longest head of a write, in bytes.
inline constexpr std::uint64_t kMaxHeadBytes = 512;

/// How a fabric's primitives implement the notification of a write. The numbers are part of the
/// wire protocol: never renumber.
enum class NotificationLowering : std::uint8_t {
  kImmediate = 1,        ///< the write itself carries the notification
  kFlushAndMessage = 2,  ///< the write, a flush, then a separate notification
  kTailFlag = 3,         ///< the write's last word, which the receiver polls; for slots only
};

/// The name of the lowering: "tail flag".
inline std::string_view to_string(NotificationLowering lowering) {
  switch (lowering) {
    case NotificationLowering::kImmediate:
      return "immediate";
    case NotificationLowering::kFlushAndMessage:
      return "flush and message";
    case NotificationLowering::kTailFlag:
      return "tail flag";
  }
  return "unknown lowering";
}

/// The direction of Channel::memcpy().
enum class Direction : std::uint8_t {
  kToRemote,    ///< write and flush
  kFromRemote,  ///< read
};

/// The state of a channel's peer.
enum class PeerState : std::uint8_t {
  kAlive,   ///< sent something within the detection time
  kSilent,  ///< sent nothing for the detection time; quarantined, may come back
  kClosed,  ///< the peer or this side closed the channel normally
  kDead,    ///< the peer's death is proven
};

/// The name of the state: "alive".
inline std::string_view to_string(PeerState state) {
  switch (state) {
    case PeerState::kAlive:
      return "alive";
    case PeerState::kSilent:
      return "silent";
    case PeerState::kClosed:
      return "closed";
    case PeerState::kDead:
      return "dead";
  }
  return "unknown peer state";
}

/// The peer of a channel, and how the channel reaches it.
struct PeerInfo {
  Endpoint endpoint;        ///< where the peer listens
  std::string name;         ///< the peer's DeviceOptions::name, unverified; only for messages
  std::string service;      ///< "box" for the server of a box, unverified; empty for other devices
  DeviceUuid uuid{};        ///< the peer's Device::uuid()
  std::uint64_t epoch = 0;  ///< the peer's Device::epoch()
  FabricKind fabric = FabricKind::kShm;  ///< the fabric of this channel
  std::string fabric_reason;             ///< why this fabric was chosen, one sentence
  std::uint32_t lanes = 0;               ///< number of lanes; valid lanes are 0 to lanes - 1
  /// Traffic that leaves the host is encrypted, see DeviceOptions::encrypt.
  bool encrypted = false;
};

/// Counts since the channel was opened, unless a field describes the present.
struct ChannelStats {
  std::uint64_t writes = 0;                  ///< posted writes, with and without a notification
  std::uint64_t reads = 0;                   ///< posted reads
  std::uint64_t aliases = 0;                 ///< views that alias() made
  std::uint64_t bytes_written = 0;           ///< bytes of the posted writes
  std::uint64_t bytes_read = 0;              ///< bytes of the posted reads
  std::uint64_t bytes_aliased = 0;           ///< bytes of the views
  std::uint64_t copies = 0;                  ///< passes over payload bytes by this process's CPU
  std::uint64_t notifications_sent = 0;      ///< without a message
  std::uint64_t notifications_received = 0;  ///< without a message
  std::uint64_t messages_sent = 0;           ///< with a message, by send() and lend()
  std::uint64_t messages_received = 0;       ///< with a message
  std::uint64_t backlogged = 0;              ///< notifications that waited for ring space
  std::uint64_t doorbells = 0;               ///< times that a sleeping peer had to be woken
  std::uint64_t leases_granted = 0;          ///< leases that this device granted to this peer
  std::uint64_t leases_released = 0;         ///< leases ended by the peer or by its proven death
  std::uint64_t leases_held = 0;        ///< leases on the peer's regions that this device holds now
  std::uint64_t quarantined_bytes = 0;  ///< bytes in quarantine now
  std::uint64_t silences = 0;           ///< times that the peer became silent
};

FARWRITE_END
