// The box's Server, Client and Segment of the library: what each does is written in farwrite/box.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/completion.h"
#include "device/device.h"
#include "farwrite/box_types.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

class ClientState;
class SegmentState;
class ServerState;

Status add_scaled(ElementType type, void* destination, const void* source, Factor factor,
                  std::uint64_t elements);

struct Update {
  Completion done;
  std::shared_ptr<const std::uint64_t> version;
};

class LeasedSegment {
 public:
  LeasedSegment() = default;
  LeasedSegment(std::shared_ptr<const void> held, ByteView bytes, const VersionId& id)
      : held_(std::move(held)), bytes_(bytes), id_(id) {}
  ByteView bytes() const { return bytes_; }
  std::uint64_t epoch() const { return id_.epoch; }
  std::uint64_t version() const { return id_.version; }

 private:
  std::shared_ptr<const void> held_;
  ByteView bytes_;
  VersionId id_;
};

class Segment {
 public:
  Segment() = default;
  explicit Segment(std::shared_ptr<SegmentState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  const SegmentInfo& info() const;
  Result<std::uint64_t> version() const;
  Result<VersionId> version_id() const;
  Result<std::vector<std::uint64_t>> chunk_versions() const;

  Result<ReadResult> read(MutableByteView out, std::uint64_t offset = 0,
                          const ReadOptions& options = {}) const;
  Update post(const Change& change, std::chrono::nanoseconds wait = {}) const;
  Result<VersionId> wait(std::uint64_t version, std::chrono::nanoseconds timeout = kForever,
                         std::uint64_t epoch = 0) const;
  std::uint64_t on_version(std::uint64_t version,
                           std::function<void(const Result<VersionId>&)> callback,
                           std::uint64_t epoch = 0) const;
  void cancel(std::uint64_t wait) const;
  Status check_wait() const;
  Result<LeasedSegment> lease(std::chrono::nanoseconds timeout = kForever) const;
  Result<LeasedSegment> view() const;

  Status detach();
  Status free();

 private:
  Update begin(const Change& change) const;

  std::shared_ptr<SegmentState> state_;
};

class Client {
 public:
  static Result<Client> connect(const Endpoint& server, const ClientOptions& options = {});

  Client() = default;
  explicit Client(std::shared_ptr<ClientState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  Result<Segment> create(const SegmentSpec& spec, Creation creation = Creation::kExclusive) const;
  Result<Segment> attach(std::string_view name,
                         std::chrono::nanoseconds timeout = std::chrono::nanoseconds(0)) const;
  Result<Segment> attach(std::uint64_t key) const;
  Result<std::vector<SegmentInfo>> list() const;
  Result<SegmentInfo> describe(std::string_view name) const;
  Result<MemoryRegion> allocate(std::uint64_t bytes) const;

  const PeerInfo& server() const;
  ClientStats stats() const;
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<ClientState> state_;
};

class Server {
 public:
  static Result<Server> serve(const ServerOptions& options = {});

  Server() = default;
  explicit Server(std::shared_ptr<ServerState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  Endpoint endpoint() const;
  Result<Draft> draft(std::uint64_t key);
  Result<std::uint64_t> commit(const Draft& draft, bool new_epoch = false, std::uint64_t fence = 0);
  void drop(const Draft& draft);

  Status snapshot();
  ServerStats stats() const;
  std::string metrics_text() const;
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1),
               bool last_snapshot = false);

 private:
  std::shared_ptr<ServerState> state_;
};

}  // namespace farwrite::box
