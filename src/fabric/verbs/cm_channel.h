// CmChannel: rdma_cm's events, waited for with a deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "fabric/verbs/verbs_library.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// An event, copied out and acknowledged.
struct CmEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::vector<std::byte> private_data;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
};

// Thread-safe, as rdma_cm is; one thread at a time waits.
class CmChannel {
 public:
  static Result<std::unique_ptr<CmChannel>> create(VerbsLibrary& library);
  ~CmChannel();
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;

  rdma_event_channel* get() const { return channel_; }
  int fd() const { return channel_->fd; }
  // Nothing if there is none now.
  std::optional<CmEvent> take();
  // What expect() saw of other ids. By the thread that waited.
  std::vector<CmEvent> take_passed_over() { return std::exchange(passed_over_, {}); }
  // Waits until `wanted` comes for `id`. Another event of that id is an error that names it, with
  // what to do; kUnavailable in general. `peer` names the peer in it.
  Result<CmEvent> expect(rdma_cm_event_type wanted, const rdma_cm_id* id, core::Deadline deadline,
                         const std::function<bool()>& abandoned, std::string_view operation,
                         const std::string& peer);

 private:
  explicit CmChannel(VerbsLibrary& library) : library_(library) {}

  VerbsLibrary& library_;
  rdma_event_channel* channel_ = nullptr;
  std::vector<CmEvent> passed_over_;
};

}  // namespace farwrite::fabric::verbs
