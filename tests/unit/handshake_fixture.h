// Two sides of a handshake over a socket pair, with fabrics that do as a test says.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/status_wire.h"
#include "core/tcp_socket.h"
#include "core/unique_fd.h"
#include "device/frame.h"
#include "device/handshake.h"
#include "device/hello.h"
#include "idle_link.h"
#include "plain_sockets.h"
#include "unit/damage.h"

namespace farwrite::device {

inline core::Deadline later() { return core::Deadline::after(std::chrono::seconds(30)); }

class FakeFabric final : public fabric::Fabric {
 public:
  explicit FakeFabric(FabricKind kind, Status outcome = Status())
      : kind_(kind), outcome_(std::move(outcome)) {}
  FabricKind kind() const override { return kind_; }
  const fabric::Capabilities& capabilities() const override { return capabilities_; }
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>&) override {
    return std::uint64_t{0};
  }
  std::string address() const override { return "address of " + std::string(to_string(kind_)); }
  Result<std::unique_ptr<fabric::Link>> attach(const fabric::AttachRequest& request) override {
    requests.push_back(request);
    if (!outcome_.ok()) return outcome_;
    return std::unique_ptr<fabric::Link>(std::make_unique<IdleLink>(alive_links));
  }

  std::vector<fabric::AttachRequest> requests;
  int alive_links = 0;

 private:
  const FabricKind kind_;
  const Status outcome_;
  const fabric::Capabilities capabilities_;
};

struct NoObserver final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

class Handshake : public ::testing::Test {
 protected:
  Handshake() {
    connecting_.endpoint = {"127.0.0.1", 1111};
    connecting_.uuid[0] = 1;
    connecting_.epoch = 11;
    connecting_.lanes = 2;
    accepting_.endpoint = {"127.0.0.1", 2222};
    accepting_.uuid[0] = 2;
    accepting_.epoch = 22;
    accepting_.lanes = 3;
    connecting_.fabrics = {&connecting_shm_};
    accepting_.fabrics = {&accepting_shm_};
    renew_sockets();
  }
  void renew_sockets() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    connecting_socket_ = core::UniqueFd(pair[0]);
    accepting_socket_ = core::UniqueFd(pair[1]);
  }
  // Both sides, each in a thread. A side that gives up hangs up, as devices do.
  void meet() {
    start_accepting();
    connected_.emplace(introduce_connecting(connecting_socket_.get(), connecting_, "127.0.0.1:2222",
                                            later(), &observer_));
    if (!connected_->ok()) connecting_socket_.reset();
    thread_.join();
  }
  void start_accepting() {
    thread_ = std::thread([this] {
      accepted_.emplace(
          introduce_accepting(accepting_socket_.get(), accepting_, later(), &observer_));
      if (!accepted_->ok()) accepting_socket_.reset();
    });
  }
  // Neither side got through, both with `code`, and no link is left.
  void expect_refused(StatusCode code, const std::vector<std::string>& words) {
    ASSERT_FALSE(connected_->ok());
    ASSERT_FALSE(accepted_->ok());
    for (const Status& status : {connected_->status(), accepted_->status()}) {
      EXPECT_EQ(status.code(), code) << status.to_string();
      for (const std::string& word : words) {
        EXPECT_NE(status.message().find(word), std::string::npos)
            << word << " is missing in: " << status.message();
      }
    }
    EXPECT_NE(connected_->status().message().find("127.0.0.1:2222"), std::string::npos)
        << connected_->status().message();
    EXPECT_EQ(connecting_shm_.alive_links + accepting_shm_.alive_links, 0);
  }
  void send(ControlFrameType type, const std::vector<std::byte>& body) {
    ASSERT_TRUE(send_frame(connecting_socket_.get(), type, view_of(body), later(), "test").ok());
  }
  Frame receive() { return receive_frame(connecting_socket_.get(), later(), "test").value(); }
  Status refusal() {
    const Frame frame = receive();
    EXPECT_EQ(frame.type, ControlFrameType::kRefuse);
    Status status;
    EXPECT_TRUE(core::status_from_bytes(view_of(frame.body), status).ok());
    return status;
  }

  NoObserver observer_;
  FakeFabric connecting_shm_{FabricKind::kShm}, accepting_shm_{FabricKind::kShm};
  LocalIdentity connecting_, accepting_;
  core::UniqueFd connecting_socket_, accepting_socket_;
  std::thread thread_;
  std::optional<Result<HandshakeResult>> connected_, accepted_;
};

}  // namespace farwrite::device
