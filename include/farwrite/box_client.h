/// @file
/// A connection to a parameter box (box.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farwrite/box_segment.h"
#include "farwrite/box_types.h"
#include "farwrite/c_box.h"
#include "farwrite/channel.h"
#include "farwrite/endpoint.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/device_options.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/region.h"
#include "farwrite/status.h"

FARWRITE_BEGIN
namespace box {

namespace internal {

/// @private What append_info() adds to.
using Infos = farwrite::internal::Gathered<std::vector<SegmentInfo>>;

/// @private Appends to the Infos of the context.
inline void append_info(void* context, const fw_segment_info* info) noexcept {
  Infos::into(context, [info](std::vector<SegmentInfo>& all) { all.push_back(to_info(*info)); });
}

/// @private A client, and what never changes of it.
struct ConnectedClient {
  explicit ConnectedClient(Only<fw_box_client> client) : handle(std::move(client)) {
    fw_peer_info known = {};
    known.struct_size = sizeof(known);
    fw_box_server_info(handle.get(), &known);
    server = to_peer_info(known);
  }

  const Only<fw_box_client> handle;
  PeerInfo server;
};

static_assert(kMaxRank == FW_MAX_SEGMENT_RANK);

/// @private Refuses what fw_segment_spec cannot hold: zero bytes in texts, 0 buffers (which are its
/// default), too many dimensions.
inline Status check_spec(const SegmentSpec& spec) {
  constexpr std::string_view kOperation = "create a segment";
  FARWRITE_RETURN_IF_ERROR(refuse_zero(kOperation, "the name", spec.name));
  FARWRITE_RETURN_IF_ERROR(refuse_zero(kOperation, "the description", spec.description));
  if (spec.buffers == 0) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation}, "0 buffers are out of range",
                         "use 2 to " + std::to_string(kMaxBuffers));
  }
  if (spec.dims.size() > kMaxRank) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation},
                         "the shape has " + std::to_string(spec.dims.size()) + " dimensions",
                         "use at most " + std::to_string(kMaxRank));
  }
  return Status();
}

}  // namespace internal

/// A connection to a box. Copies share it. Thread-safe.
class Client {
 public:
  /// Opens a device and connects. kUnavailable, without a request, if `server` is the device of a
  /// program that serves no box.
  static Result<Client> connect(const Endpoint& server, const ClientOptions& options = {});

  Client() = default;
  /// @private Made by connect(), takes the handle over.
  explicit Client(fw_box_client* handle)
      : state_(std::make_shared<internal::ConnectedClient>(
            internal::only(handle, fw_box_client_release))) {}
  /// @private
  fw_box_client* handle() const { return state_->handle.get(); }
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// Creates a segment filled with zeros, and attaches it.
  Result<Segment> create(const SegmentSpec& spec, Creation creation = Creation::kExclusive) const;
  /// Attaches the segment of that name. Waits up to `timeout` until another process creates it.
  /// kInvalidArgument for a name that no segment can have.
  Result<Segment> attach(std::string_view name,
                         std::chrono::nanoseconds timeout = std::chrono::nanoseconds(0)) const;
  /// Attaches the segment of that key. kNotFound if it was freed.
  Result<Segment> attach(std::uint64_t key) const;
  /// Every segment of the box. A description of more than kMaxListedDescription bytes is left out.
  Result<std::vector<SegmentInfo>> list() const;
  /// The segment of that name as list() has it, as it is now. kNotFound.
  Result<SegmentInfo> describe(std::string_view name) const;
  /// Memory that the server reads where it is: sources from it need no copy. 64-byte aligned.
  /// kCancelled after close().
  Result<MemoryRegion> allocate(std::uint64_t bytes) const;

  /// The server and the fabric that reaches it.
  const PeerInfo& server() const { return state_->server; }
  /// The counts of this client.
  ClientStats stats() const;
  /// Ends the connection: pending changes end with kCancelled, applied or not. Waits up to
  /// `timeout` until the server reads their memory no more; until then they are not settled. Leases
  /// stay valid: the client's device stays open until the last of them has ended.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1)) {
    return internal::taken(fw_box_client_close(handle(), internal::to_ns(timeout)));
  }

 private:
  std::shared_ptr<const internal::ConnectedClient> state_;
};

inline Result<Client> Client::connect(const Endpoint& server, const ClientOptions& options) {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("connect to a box", "the host", server.host));
  const internal::COptions device(options.device);
  FARWRITE_RETURN_IF_ERROR(device.status());
  fw_box_client* client = nullptr;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_box_connect(server.to_string().c_str(), device.get(),
                                     internal::to_ns_above_0(options.timeout), &client)));
  return Client(client);
}

inline Result<Segment> Client::create(const SegmentSpec& spec, Creation creation) const {
  FARWRITE_RETURN_IF_ERROR(internal::check_spec(spec));
  fw_segment_spec c = {};
  c.struct_size = sizeof(c);
  c.name = spec.name.c_str();
  c.type = static_cast<std::uint32_t>(spec.type);
  c.rank = static_cast<std::uint32_t>(spec.dims.size());
  std::copy(spec.dims.begin(), spec.dims.end(), c.dims);
  c.description = spec.description.c_str();
  c.buffers = spec.buffers;
  c.temporary = spec.temporary ? 1 : 0;
  fw_segment* segment = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_box_create(handle(), &c, creation == Creation::kOpenOrCreate ? 1 : 0, &segment)));
  return Segment(segment);
}

inline Result<Segment> Client::attach(std::string_view name,
                                      std::chrono::nanoseconds timeout) const {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("attach a segment", "the name", name));
  fw_segment* segment = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_box_attach(handle(), std::string(name).c_str(), internal::to_ns(timeout), &segment)));
  return Segment(segment);
}

inline Result<Segment> Client::attach(std::uint64_t key) const {
  fw_segment* segment = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_box_attach_key(handle(), key, &segment)));
  return Segment(segment);
}

inline Result<std::vector<SegmentInfo>> Client::list() const {
  internal::Infos infos;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_box_list(handle(), nullptr, internal::append_info, &infos)));
  return infos.take();
}

inline Result<SegmentInfo> Client::describe(std::string_view name) const {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("describe a segment", "the name", name));
  internal::Infos infos;
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_box_list(handle(), std::string(name).c_str(), internal::append_info, &infos)));
  return std::move(infos.take().front());
}

inline Result<MemoryRegion> Client::allocate(std::uint64_t bytes) const {
  fw_region* region = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_box_allocate(handle(), bytes, &region)));
  return MemoryRegion(region);
}

inline ClientStats Client::stats() const {
  fw_box_stats known = {};
  known.struct_size = sizeof(known);
  fw_box_client_stats(handle(), &known);
  ClientStats stats;
  stats.reads = known.reads;
  stats.read_retries = known.read_retries;
  stats.leased_reads = known.leased_reads;
  stats.changes = known.changes;
  stats.staged_bytes = known.staged_bytes;
  stats.leases = known.leases;
  return stats;
}

}  // namespace box
FARWRITE_END
