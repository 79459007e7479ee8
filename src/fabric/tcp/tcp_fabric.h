// TcpFabric: one-sided transfers over TCP, for peers anywhere.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/byte_stream.h"
#include "core/event_loop.h"
#include "core/spare_fd.h"
#include "core/tcp_socket.h"
#include "fabric/fabric.h"
#include "fabric/tcp/export_table.h"
#include "fabric/tcp/join.h"

namespace farwrite::fabric::tcp {

struct TcpOptions {
  Endpoint listen;  // where lanes connect to; port 0 picks one
  // A connection on which the network brings nothing back for this long is given up.
  std::chrono::nanoseconds host_timeout = std::chrono::seconds(60);
};

// Thread-safe. The loop outlives the fabric.
class TcpFabric final : public Fabric {
 public:
  static Result<std::unique_ptr<Fabric>> create(core::EventLoop& loop, const TcpOptions& options);
  ~TcpFabric() override;

  FabricKind kind() const override { return FabricKind::kTcp; }
  const Capabilities& capabilities() const override;
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>& segment) override {
    return exports_->add(segment);
  }
  // The port; the peer knows the host already.
  std::string address() const override { return std::to_string(listener_.endpoint.port); }
  Result<std::unique_ptr<Link>> attach(const AttachRequest& request) override;

 private:
  // A connection that has not found its handshake yet.
  struct Arrival {
    core::UniqueFd socket;
    core::Deadline deadline = core::Deadline::never();
    std::array<std::byte, JoinMessage::kBytes> bytes{};
    std::size_t received = 0;
    bool complete() const { return received == bytes.size(); }
  };

  TcpFabric(core::EventLoop& loop, const TcpOptions& options, core::Listener listener);
  Result<core::UniqueFd> connect_lane(const AttachRequest& request, std::uint16_t lane) const;
  // Waits for the connection that proves to be this lane's.
  Result<core::UniqueFd> accept_lane(const AttachRequest& request, std::uint16_t lane);
  // The stream over a lane's socket, once both sides know it as theirs.
  Result<std::unique_ptr<core::ByteStream>> make_stream(core::UniqueFd socket,
                                                        const AttachRequest& request,
                                                        std::uint16_t lane) const;
  void on_connection();
  void on_readable(int fd);
  void drop_stale_locked();

  core::EventLoop& loop_;
  const TcpOptions options_;
  const core::Listener listener_;
  core::SpareFd spare_fd_;  // loop's thread only
  const std::shared_ptr<ExportTable> exports_ = std::make_shared<ExportTable>();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::list<Arrival> arrivals_;  // oldest first
};

}  // namespace farwrite::fabric::tcp
