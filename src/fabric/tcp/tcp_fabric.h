// TcpFabric: one-sided transfers over TCP, for peers anywhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/byte_stream.h"
#include "core/event_loop.h"
#include "core/mutex.h"
#include "core/tcp_socket.h"
#include "fabric/fabric.h"
#include "fabric/lobby.h"
#include "fabric/tcp/export_table.h"
#include "farwrite/options.h"

namespace farwrite::fabric::tcp {

// What the fabric is told: the user's settings, and those that it shares with the device.
struct FabricOptions : TcpOptions {
  // As a device with these options uses it.
  static FabricOptions of(const DeviceOptions& device);

  std::string listen_host;
  PortRange port_range;
  // A connection on which the network brings nothing back for this long is given up.
  std::chrono::nanoseconds host_timeout = std::chrono::seconds(60);
  // A connection that belongs to no handshake is dropped after this.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(10);
};

// Thread-safe. The loop outlives the fabric.
class TcpFabric final : public Fabric {
 public:
  // Listens at once on a data_port that is set, and on any other once a peer needs it: most peers
  // of most devices have a better fabric.
  static Result<std::unique_ptr<Fabric>> create(core::EventLoop& loop,
                                                const FabricOptions& options);

  FabricKind kind() const override { return FabricKind::kTcp; }
  const Capabilities& capabilities() const override;
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>& segment) override {
    return exports_->add(segment);
  }
  Status make_reachable() override;
  // The port, once it listens; the peer knows the host already.
  std::string address() const override;
  Result<std::unique_ptr<Link>> attach(const AttachRequest& request) override;

 private:
  TcpFabric(core::EventLoop& loop, const FabricOptions& options) : loop_(loop), options_(options) {}
  Result<core::UniqueFd> connect_lane(const AttachRequest& request, std::uint16_t lane) const;
  // Waits for the connection that proves to be this lane's.
  Result<core::UniqueFd> accept_lane(const AttachRequest& request, std::uint16_t lane);
  // The stream over a lane's socket, once both sides know it as theirs.
  Result<std::unique_ptr<core::ByteStream>> make_stream(core::UniqueFd socket,
                                                        const AttachRequest& request,
                                                        std::uint16_t lane) const;

  // Once it is reachable.
  Lobby& lobby() {
    const core::Lock lock(mutex_);
    return *lobby_;
  }

  core::EventLoop& loop_;
  const FabricOptions options_;
  const std::shared_ptr<ExportTable> exports_ = std::make_shared<ExportTable>();

  // Both stay as make_reachable() leaves them.
  mutable core::Mutex mutex_{core::LockRank::kTcp};
  core::Listener listener_ FW_GUARDED_BY(mutex_);
  std::unique_ptr<Lobby> lobby_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::fabric::tcp
