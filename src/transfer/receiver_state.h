// ReceiverState: everything behind a TensorReceiver.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/counter.h"
#include "core/fork_guard.h"
#include "core/mutex.h"
#include "transfer/offer.h"
#include "transfer/port.h"
#include "transfer/sequence.h"
#include "transfer/tensor.h"

namespace farwrite::transfer {

// Thread-safe. Held by the user's handles and, for the length of a call, by the port.
class ReceiverState : public std::enable_shared_from_this<ReceiverState> {
 public:
  static Result<std::shared_ptr<ReceiverState>> open(const Channel& channel, std::string_view name,
                                                     const ReceiverOptions& options);
  ~ReceiverState();

  Result<ReceivedTensor> receive(std::chrono::nanoseconds timeout);
  Status wait(std::chrono::nanoseconds timeout);
  Result<std::optional<ReceivedTensor>> try_receive();
  Status reset();
  TensorStats stats() const;
  Status close(std::chrono::nanoseconds timeout);

  // From the port, under its mutex.
  void take_push(LandedTensor tensor);
  void take_stale(ByteView description);
  void take_misfit(PushVerdict verdict);
  // `message`: what the offer was decoded from; a welcome one is moved from.
  void take_offer(OfferRecord offer, Notification& message, std::uint64_t epoch);
  void sender_has_closed(const ClosedRecord& record);

 private:
  // What has arrived and nothing has received.
  struct Item {
    LandedTensor pushed;
    PushDescription push;
    std::shared_ptr<OfferedTensor> offer;  // else
    std::uint64_t sequence = 0;
    std::uint32_t round = 0;  // a later one, of reset(), drops it
  };

  ReceiverState(const Channel& channel, std::string_view name, const ReceiverOptions& options);
  Status check() const;
  // Until something has arrived, or nothing will: then `take` is called, under the port's mutex.
  Status wait_for(core::Deadline deadline, const std::function<void()>& take);
  Status allocate_slots();
  Status announce();
  Result<ReceivedTensor> resolve(Item item, core::Deadline deadline);
  ReceivedTensor hand_out(Item item);
  // Starts to read what comes behind a tensor of so many bytes, which is being read.
  void read_ahead(std::uint64_t first_bytes);
  std::vector<std::shared_ptr<OfferedTensor>> take_in_offers(std::uint64_t first_bytes);

  bool sender_has_ended() const FW_REQUIRES(port_->mutex());
  // Why no tensor follows: kEndOfStream if the stream is complete.
  Status end() const FW_REQUIRES(port_->mutex());
  // The same where the channel has ended first.
  Status broke_off(const Status& reason) const;
  Status broke_off_after(std::uint64_t count, const Status& reason) const;
  // Every tensor up to this one was received or dropped.
  std::uint64_t taken() const FW_REQUIRES(port_->mutex());
  void count(const ReceivedTensor& received);
  void put_back(Item item) FW_REQUIRES(port_->mutex());  // in its place
  // Sends the sender that number, as long as no other tensor waits here or it is far behind.
  void report_taken() FW_REQUIRES(port_->mutex());
  void drop_stale(std::uint64_t sequence) FW_REQUIRES(port_->mutex());
  void look_at_flags() FW_REQUIRES(port_->mutex());
  std::uint64_t* flag_of(std::size_t slot) const;

  Channel channel_;
  const std::shared_ptr<Port> port_;
  const std::string name_;
  const ReceiverOptions options_;
  const core::ForkGuard fork_guard_;
  std::uint64_t registrations_before_ = 0;
  EdgeTerms terms_;
  std::string key_;  // of the edge, for the engine

  bool announced_ FW_GUARDED_BY(port_->mutex()) = false;
  bool closed_ FW_GUARDED_BY(port_->mutex()) = false;
  bool sender_closed_ FW_GUARDED_BY(port_->mutex()) = false;
  bool abandoned_ FW_GUARDED_BY(port_->mutex()) = false;  // by the sender
  std::uint64_t closing_sequence_ FW_GUARDED_BY(port_->mutex()) =
      0;  // of the sender's last tensor, once it has closed
  std::set<std::uint64_t> resolving_
      FW_GUARDED_BY(port_->mutex());                          // offers that threads map or read now
  std::uint64_t reported_ FW_GUARDED_BY(port_->mutex()) = 0;  // what report_taken() has sent
  std::uint32_t round_ FW_GUARDED_BY(port_->mutex()) = 0;
  Status broken_ FW_GUARDED_BY(port_->mutex());  // why nothing in order can follow
  std::vector<MemoryRegion> regions_;
  std::vector<Engine::SlotRef> slots_;     // in the same order; fixed once announced
  std::vector<std::uint64_t> last_flags_;  // the tail flags that were seen last
  Sequence<Item> arrived_ FW_GUARDED_BY(port_->mutex());
  std::uint64_t dropped_offers_ FW_GUARDED_BY(port_->mutex()) = 0;
  std::uint64_t dropped_unseen_ FW_GUARDED_BY(port_->mutex()) = 0;
  std::uint64_t offered_ FW_GUARDED_BY(port_->mutex()) = 0;
  std::uint64_t allocations_ = 0;

  core::Counter aliased_, read_, eager_, eager_allocations_, read_allocations_;
};

}  // namespace farwrite::transfer
