// HostedSegment: one segment at the server, and everything that is done to it.
//
// Changes are exclusive: one at a time, in the order in which their threads come. A change is
// applied wholly or not at all, because its sources are complete before it begins.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "box/box.h"
#include "box/buffer_set.h"
#include "box/messages.h"
#include "box/parallel_loop.h"
#include "core/mutex.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

class HostedSegment;

// A pinned buffer. It is unpinned with the object. Movable.
class Pin {
 public:
  Pin() = default;
  Pin(std::shared_ptr<HostedSegment> segment, std::uint64_t number, ByteView bytes,
      const VersionId& id)
      : segment_(std::move(segment)), number_(number), bytes_(bytes), id_(id) {}
  ~Pin() { release(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  Pin(Pin&& other) noexcept
      : segment_(std::move(other.segment_)),
        number_(other.number_),
        bytes_(other.bytes_),
        id_(other.id_) {}
  Pin& operator=(Pin&& other) noexcept;

  const VersionId& id() const { return id_; }
  const std::shared_ptr<HostedSegment>& segment() const { return segment_; }
  ByteView bytes() const { return bytes_; }

 private:
  void release();

  std::shared_ptr<HostedSegment> segment_;
  std::uint64_t number_ = 0;  // of the pin
  ByteView bytes_;
  VersionId id_;
};

// Thread-safe.
class HostedSegment : public std::enable_shared_from_this<HostedSegment> {
 public:
  using Waiter = std::function<void(const Result<VersionId>& id)>;

  // `spec` has passed checked_bytes(). kResourceExhausted without memory for it.
  static Result<std::shared_ptr<HostedSegment>> create(const Device& device, SegmentSpec spec,
                                                       std::uint64_t key, const VersionId& id);
  // Of the one buffer of a segment that nothing has seen yet.
  MutableByteView first_bytes() { return {buffers_.data(0), bytes_}; }

  const SegmentSpec& spec() const { return spec_; }
  std::uint64_t key() const { return key_; }
  std::uint64_t bytes() const { return bytes_; }
  VersionId id() const;
  // Since the last change, or since the segment was made.
  std::chrono::nanoseconds age() const;
  // Its holders can read it even after the segment is freed.
  const MemoryRegion& state() const { return buffers_.state(); }
  Result<MemoryRegion> buffer(std::uint64_t number) const;
  std::uint64_t buffer_number(std::uint32_t row) const;
  std::uint64_t allocated() const;

  // What a change reads: memory that holds still (a client's, or a copy), or other segments.
  struct Sources {
    ByteView memory = {};                     // x, unless `x` is set
    std::shared_ptr<HostedSegment> x = {};    // x as a segment
    std::shared_ptr<HostedSegment> y = {};    // of kAxpy
    std::optional<std::uint32_t> draft = {};  // kWrite: x is in this buffer already
  };
  // What a change led to, and how it was made, for the server's counters.
  struct ChangeResult {
    VersionId id = {};
    std::uint32_t row = 0;  // the current one
    std::uint64_t buffer = 0;
    std::uint64_t length = 0;
    bool switched = false;  // into another buffer
    bool copied = false;    // the old bytes first, because they were pinned
  };
  // Checks and applies. kInvalidArgument, kOutOfRange, kNotFound (freed), kResourceExhausted (the
  // current buffer is pinned and there is no other).
  Result<ChangeResult> apply(const ChangeFields& change, const Sources& sources,
                             ParallelLoop& loop);
  // The checks of apply() alone, which need no sources. Fills in change.length.
  Status check(ChangeFields& change) const;

  // A buffer for a write of the whole segment, filled by the caller; nothing if none is available.
  // Ended by apply() or drop().
  std::optional<std::uint32_t> draft();
  void drop(std::uint32_t row);
  MutableByteView draft_bytes(std::uint32_t row) const;

  // How many pins exist.
  std::uint64_t leases() const;
  // Says whether the holder of a pin is silent: stopped, or cut off. Ends the pin first if the
  // holder has given it back. On any thread, without a lock held.
  using Silent = std::function<bool()>;
  // Pins the current buffer; waits for a change that is made in it. kResourceExhausted, kNotFound.
  // Where buffers are short, those whose holders are all silent count no longer: they stay as they
  // are for them, and further ones take their places.
  Result<Pin> pin(Silent silent);

  // Calls `read` with the current bytes while no change is made.
  Status hold_still(const std::function<Status(ByteView bytes, const VersionId& id)>& read);

  // Calls `waiter` once: when the version is reached or the epoch is another than `wanted` has
  // (0: any epoch will do), or with kNotFound when the segment is freed. In this thread if that is
  // now. Returns what stop_waiting() takes; 0 if it was called.
  std::uint64_t wait(const VersionId& wanted, Waiter waiter);
  void stop_waiting(std::uint64_t id);

  // Readers and waiters see that it is gone; later calls fail. False if it was gone already.
  bool free();
  bool freed() const;

 private:
  friend class Pin;
  struct VersionWaiter {
    std::uint64_t id;
    VersionId wanted;
    Waiter waiter;
  };
  // A buffer in which a change is made.
  struct Target {
    std::uint32_t row = 0;
    std::uint32_t base = 0;  // the current one; equal to `row` for a change in place
    bool pinned = false;     // so is `base`
    bool fresh() const { return row != base; }
  };

  HostedSegment(SegmentSpec spec, std::uint64_t key, BufferSet buffers)
      : spec_(std::move(spec)), key_(key), bytes_(buffers.bytes()), buffers_(std::move(buffers)) {}

  struct Holder {
    std::uint64_t buffer = 0;
    Silent silent;
  };

  Status gone() const;
  // Whether another try may find a buffer: a pin has ended, or all holders of a buffer are silent,
  // and it was set aside.
  bool make_room();
  Status check_range(std::uint64_t offset, std::uint64_t length, std::string_view what) const;
  // A change of bytes, with change_mutex_: chooses its buffer, and ends by end_change(), or by
  // cancel_change() if nothing was written. `whole`: it touches all bytes; `overwrites`: it reads
  // none of the old ones. kResourceExhausted.
  Result<Target> begin_change(bool whole = false, bool overwrites = false);
  void cancel_change(const Target& target);
  VersionId end_change(std::uint32_t row, bool new_epoch = false);
  // With change_mutex_.
  const std::byte* current_bytes() const { return buffers_.data(buffers_.current()); }
  void replace_bytes(const std::byte* from, std::uint32_t row, ParallelLoop& loop);
  void change_elements(const ChangeFields& change, std::byte* to, const std::byte* x,
                       const std::byte* y, std::uint64_t bytes) const;
  void change_bytes(const ChangeFields& change, const Sources& sources, const Target& target,
                    ParallelLoop& loop);
  Status swap(const ChangeFields& change, HostedSegment& other, ChangeResult& result,
              ParallelLoop& loop);
  void unpin(std::uint64_t pin);
  void call_waiters(const VersionId& now);

  const SegmentSpec spec_;
  const std::uint64_t key_;
  const std::uint64_t bytes_;

  // Taken before mutex_; of several segments in the order of their addresses.
  core::Mutex change_mutex_{core::LockRank::kBox, 2, core::Siblings::kByAddress};
  // Guards what follows; never held while bytes are moved.
  mutable core::Mutex mutex_{core::LockRank::kBox};
  BufferSet buffers_;  // its data and state need no lock
  std::chrono::steady_clock::time_point changed_at_ FW_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();
  bool freed_ FW_GUARDED_BY(mutex_) = false;
  bool leased_ FW_GUARDED_BY(mutex_) = false;                      // ever
  std::map<std::uint64_t, Holder> holders_ FW_GUARDED_BY(mutex_);  // by pin
  std::uint64_t next_pin_ FW_GUARDED_BY(mutex_) = 1;
  std::optional<Target> changing_ FW_GUARDED_BY(mutex_);  // where bytes change now
  core::CondVar changed_;
  std::vector<VersionWaiter> waiting_ FW_GUARDED_BY(mutex_);
  std::uint64_t next_waiting_ FW_GUARDED_BY(mutex_) = 1;
};

}  // namespace farwrite::box
