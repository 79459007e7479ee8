// ShmLinks: two links in one process, whose mailboxes a test may spoil.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "fabric/shm/shm_link.h"

namespace farwrite::fabric::shm {

inline constexpr std::uint64_t kBytes = 8192;
inline constexpr std::chrono::seconds kLinkHang{30};

inline core::Deadline link_hang() { return core::Deadline::after(kLinkHang); }

inline std::shared_ptr<memory::Segment> link_segment(memory::SegmentUse use) {
  memory::SegmentOptions options;
  options.bytes = kBytes;
  options.use = use;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
}

struct Observer final : LinkObserver {
  void on_peer_dead(const Status& reason) override { add(deaths, reason); }
  void on_link_error(const Status& reason) override { add(errors, reason); }
  void add(std::vector<Status>& list, const Status& reason) {
    const std::lock_guard<std::mutex> lock(mutex);
    list.push_back(reason);
  }
  std::size_t error_count() {
    const std::lock_guard<std::mutex> lock(mutex);
    return errors.size();
  }

  std::mutex mutex;
  std::vector<Status> deaths, errors;
};

struct Sink final : EventSink {
  void on_notification(Notification&& notification) override {
    if (during) during();
    taken.push_back(std::move(notification));
  }

  std::vector<Notification> taken;
  std::function<void()> during;
};

// One side: its link, what it exports, and its mailbox, which a test may spoil.
struct Side {
  Observer observer;
  Sink sink;
  std::vector<std::shared_ptr<memory::Segment>> exports;
  MailboxView own_mailbox, peer_mailbox;
  std::unique_ptr<ShmLink> link;

  void open(Attachment attachment, AttachRequest request, core::EventLoop& loop) {
    own_mailbox = attachment.own.view;
    peer_mailbox = attachment.peer.view;
    request.observer = &observer;
    link = std::make_unique<ShmLink>(std::move(attachment), request, loop, std::chrono::hours(1),
                                     [this](std::uint32_t id) {
                                       for (const auto& segment : exports) {
                                         if (segment->id() == id) return segment;
                                       }
                                       return std::shared_ptr<memory::Segment>();
                                     });
  }
};

struct Pair {
  Pair(core::EventLoop& loop, std::uint32_t lanes) {
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) != 0) {
      std::abort();
    }
    AttachRequest request;
    request.peer_name = "127.0.0.1:7777";
    request.lanes = lanes;
    request.deadline = link_hang();
    auto connected = std::async(std::launch::async, [&] {
      return attach_connecting(core::UniqueFd(sockets[0]), request).value();
    });
    core::UniqueFd accepting(sockets[1]);
    auto offer =
        AttachOffer::decode(receive_packet(sockets[1], link_hang(), "test").value()).value();
    far.open(attach_accepting(std::move(accepting), std::move(offer), request).value(), request,
             loop);
    near.open(connected.get(), request, loop);
  }

  Side near, far;
};

class ShmLinks : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = core::EventLoop::start("test").value();
    pair_ = std::make_unique<Pair>(*loop_, 2);
  }
  Side& near() { return pair_->near; }
  Side& far() { return pair_->far; }

  static RegionDescriptor describe(std::uint64_t key, Access access, std::uint64_t region = 1) {
    RegionDescriptor descriptor;
    descriptor.region_id = region;
    descriptor.offset = 4096;
    descriptor.length = 1024;
    descriptor.access = access;
    descriptor.keys = {{FabricKind::kShm, key}};
    return descriptor;
  }
  // A region at the far end that the near end may write.
  void land() {
    landing_ = link_segment(memory::SegmentUse::kLanding);
    key_ = far().link->grant(landing_, 4096, 1024, 1).value();
    window_ = near().link->import(describe(key_, Access::kWrite), link_hang()).value();
  }
  Completion write(ByteView source, std::uint64_t offset, std::optional<std::uint32_t> tag = {}) {
    Operation operation;
    operation.source = source;
    operation.offset = offset;
    operation.window = window_;
    operation.notify = tag.has_value();
    operation.tag = tag.value_or(0);
    return near().link->lane(0).post(operation);
  }
  static Completion notify(Side& side, std::uint32_t tag, std::uint32_t lane = 0) {
    Operation operation;
    operation.kind = OperationKind::kNotify;
    operation.tag = tag;
    return side.link->lane(lane).post(operation);
  }
  static Completion send(Side& side, const std::vector<std::byte>& message, std::uint32_t tag) {
    Operation operation;
    operation.kind = OperationKind::kMessage;
    operation.tag = tag;
    operation.source = {message.data(), message.size()};
    return side.link->lane(0).post(operation);
  }
  static Progress poll(Side& side, std::uint32_t lane = 0) {
    return side.link->lane(lane).poll(side.sink);
  }
  // Notifies until the ring is full and `more` notifications are backlogged.
  std::vector<Completion> overfill(std::size_t more) {
    std::vector<Completion> posted;
    const std::size_t room = near().peer_mailbox.geometry().cells;
    for (std::size_t i = 0; i < room + more; ++i) {
      posted.push_back(notify(near(), static_cast<std::uint32_t>(i)));
    }
    return posted;
  }
  // Puts a record of an unknown kind where the far side reads next.
  void spoil_far_ring() {
    (void)notify(near(), 0);
    far().own_mailbox.cells(0)->kind = static_cast<RecordKind>(99);
  }

  std::unique_ptr<core::EventLoop> loop_;
  std::unique_ptr<Pair> pair_;
  std::shared_ptr<memory::Segment> landing_;
  std::uint64_t key_ = 0;
  std::shared_ptr<RemoteWindow> window_;
};

}  // namespace farwrite::fabric::shm
