// SegmentState: what the handles of one attached segment share: the segment's state at the server,
// and the buffers that this client has opened.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "box/box.h"
#include "box/client_state.h"
#include "box/segment_layout.h"
#include "core/deadline.h"
#include "core/mutex.h"

namespace farwrite::box {

// Thread-safe.
class SegmentState : public std::enable_shared_from_this<SegmentState> {
 public:
  // Of calls without a timeout of their own.
  static inline const core::Deadline kNone = core::Deadline::never();

  // Takes over an attachment that the server has made.
  static Result<std::shared_ptr<SegmentState>> open(std::shared_ptr<ClientState> client,
                                                    SegmentInfo info,
                                                    const ClientState::ReceivedReply& answer);
  ~SegmentState();
  SegmentState(const SegmentState&) = delete;
  SegmentState& operator=(const SegmentState&) = delete;

  const SegmentInfo& info() const { return info_; }
  const std::shared_ptr<ClientState>& client() const { return client_; }
  // Also ends what post() began.
  Status detach();
  // As ClientState::post(), for a request whose answer may take long.
  std::uint64_t post(Request request, ClientState::OnAnswer on_answer);
  // Drops what post() began, by its number.
  void cancel(std::uint64_t number);
  // The server has freed the segment: its memory is not to be kept from being used again.
  void forget_buffers();
  // The client closes, and nothing looks at the state any more: gives back what the segment holds
  // of the server's memory. What a program looks at has its own lease.
  void release();

  // A buffer of the segment, mapped where the fabric maps memory.
  struct MappedBuffer {
    RemoteRegion region;
    Alias alias;
  };
  // Opened at its first use. kNotFound if it does not exist any more. Here and below, `deadline` is
  // the call's own, and ClientState::answer_by() says how long that waits for a stopped server.
  Result<MappedBuffer> buffer(std::uint64_t number, const core::Deadline& deadline = kNone);

  // Reads words of the segment's state. One-sided.
  Status load(std::uint64_t at, std::uint64_t* words, std::size_t count,
              const core::Deadline& deadline = kNone) const;
  // Reads a region of the server that is not mapped. kDeadlineExceeded only with an owner of `out`,
  // which lives until no more bytes can arrive there.
  Status fetch(MutableByteView out, const RemoteRegion& region, std::uint64_t offset,
               const core::Deadline& deadline, const std::shared_ptr<const void>& owner) const;
  // Whether the state and the buffers are mapped.
  bool maps() const { return maps_; }
  // The region of the state, of a client that has not closed, in a thread that may wait.
  Result<RemoteRegion> state_region() const;

  // A row of the state: one buffer, and the version in it.
  struct BufferRow {
    std::uint64_t index = 0;
    std::uint64_t stamp = 0;
    std::uint64_t number = 0;  // of the buffer
    std::uint64_t epoch = 0;   // 0 while it changes together with the stamp

    // Whether the row, loaded before, still has the same contents.
    bool same_as(const BufferRow& later) const {
      return stamp == later.stamp && number == later.number && epoch == later.epoch && epoch != 0;
    }
    VersionId id() const { return {.epoch = epoch, .version = SegmentLayout::version(stamp)}; }
    // Of words that begin at SegmentLayout::stamp_at(index).
    static BufferRow of(std::uint64_t index, const std::uint64_t* words) {
      return {.index = index, .stamp = words[0], .number = words[1], .epoch = words[2]};
    }
  };
  Result<BufferRow> current_row(const core::Deadline& deadline = kNone) const;
  // The same in words that were read from the beginning of the state on, kHeadBytes of them.
  Result<BufferRow> current_row_in(const std::uint64_t* head) const;
  // The row that was current when this client looked last, or after its last change. Its number is
  // 0 if there was none.
  BufferRow last_row() const;
  void set_last_row(const BufferRow& row);
  // The row of that index, as it is now.
  Result<BufferRow> row_at(std::uint64_t index, const core::Deadline& deadline = kNone) const;
  // The epoch and the version. Between hosts they may be of two moments, the epoch of the later
  // one.
  Result<VersionId> id(const core::Deadline& deadline = kNone) const;
  Result<std::uint64_t> version() const;
  Status gone() const;
  Status detached() const;
  Status malformed() const;
  // kFailedPrecondition after detach(), kNotFound once freed.
  Status check_open() const;
  ErrorContext context(std::string_view operation) const;

 private:
  struct PendingWait;

  SegmentState(std::shared_ptr<ClientState> client, SegmentInfo info)
      : client_(std::move(client)), info_(std::move(info)) {}
  // Asks for the buffer of that number; for the state with 0.
  Result<MappedBuffer> request_region(std::uint64_t number, std::uint64_t length,
                                      const core::Deadline& deadline = kNone) const;
  // Takes over what the server has lent.
  Result<MappedBuffer> open_region(const RemoteRegion& region, std::uint64_t length,
                                   const core::Deadline& deadline = kNone) const;

  const std::shared_ptr<ClientState> client_;
  const SegmentInfo info_;
  bool maps_ = false;   // fixed once open
  MappedBuffer state_;  // goes at release(); a pass through the client's gate keeps it

  mutable core::Mutex mutex_{core::LockRank::kBox};
  std::map<std::uint64_t, MappedBuffer> buffers_ FW_GUARDED_BY(mutex_);
  std::set<std::uint64_t> waits_ FW_GUARDED_BY(mutex_);  // their numbers
  bool detached_ FW_GUARDED_BY(mutex_) = false;
  bool freed_ FW_GUARDED_BY(mutex_) = false;
  BufferRow last_row_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::box
