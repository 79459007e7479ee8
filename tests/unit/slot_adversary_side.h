// What both sides of a slot adversary's run have: the link, the tensors, what is known of the run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulated/random.h"
#include "simulated/simulated_fabric.h"
#include "simulated/simulated_kind.h"
#include "slot_adversary_script.h"
#include "transfer/offer.h"
#include "transfer/records.h"

namespace farwrite::transfer::slot_adversary {

using fabric::Operation;
using fabric::OperationKind;
using fabric::Random;

inline constexpr std::uint64_t kPayload = 48;
inline constexpr std::uint64_t kStride = 512;  // of a slot
inline constexpr std::uint64_t kBuffers = 6;   // from which tensors are offered
inline constexpr std::uint64_t kSegment = 4096;
inline constexpr std::uint64_t kEpoch = 1000;
inline constexpr std::uint32_t kOfferTag = tag_of(RecordType::kOffer);
inline constexpr const char* kEdge = "1";           // the key of the one edge
inline constexpr std::uint32_t kReleaseTag = 0x77;  // gives an offered buffer back

inline std::byte pattern(std::uint64_t sequence, std::uint64_t index) {
  return static_cast<std::byte>((sequence * 41 + index * 13) % 251 + 1);
}

inline void fill(std::byte* bytes, std::uint64_t sequence) {
  for (std::uint64_t i = 0; i < kPayload; ++i) bytes[i] = pattern(sequence, i);
}

inline bool is_tensor(const std::byte* bytes, std::uint64_t sequence) {
  for (std::uint64_t i = 0; i < kPayload; ++i) {
    if (bytes[i] != pattern(sequence, i)) return false;
  }
  return true;
}

inline TensorSpec spec() { return {"|u1", 1, {kPayload}}; }

// What both sides know of a run.
struct Run {
  SlotRun result;
  SlotPath path = SlotPath::kImmediate;
  SlotMistake mistake = SlotMistake::kNone;
  std::map<std::uint64_t, std::uint32_t> sent_in_round;  // by sequence, as the sender knew it

  void report(SlotViolation violation, const std::string& text) {
    result.violations.insert(violation);
    result.details.push_back(text);
  }
};

// One side of the link.
class Side : public fabric::EventSink, public fabric::LinkObserver {
 public:
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
  void poll() { link_->lane(0).poll(*this); }

 protected:
  void attach(fabric::SimulatedNetwork& network, bool connecting, const std::string& peer) {
    fabric_ = std::make_unique<fabric::SimulatedFabric>(network);
    fabric::AttachRequest request;
    request.connecting = connecting;
    request.peer_name = connecting ? "receiver" : "sender";
    request.peer_address = peer;
    request.observer = this;
    link_ = fabric_->attach(request).value();
  }
  std::shared_ptr<fabric::RemoteWindow> import(std::uint64_t key) {
    RegionDescriptor descriptor;
    descriptor.length = kSegment;
    descriptor.keys = {{fabric::kSimulated, key}};
    return link_->import(descriptor, core::Deadline::never()).value();
  }
  Completion say(std::uint32_t tag, const std::vector<std::byte>& message) {
    Operation operation;
    operation.kind = OperationKind::kMessage;
    operation.tag = tag;
    operation.source = {message.data(), message.size()};
    return post(operation);
  }
  virtual Completion post(const Operation& operation) { return link_->lane(0).post(operation); }

  std::unique_ptr<fabric::SimulatedFabric> fabric_;
  std::unique_ptr<fabric::Link> link_;
};

}  // namespace farwrite::transfer::slot_adversary
