/// @file
/// A segment of a parameter box, as a client attaches it (box.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "farwrite/box_types.h"
#include "farwrite/bytes.h"
#include "farwrite/c_box.h"
#include "farwrite/completion.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"
#include "farwrite/timeout.h"

FARWRITE_BEGIN
namespace box {

namespace internal {

using namespace farwrite::internal;  // NOLINT(google-build-using-namespace): the common helpers

/// @private A timeout for a call of the C ABI in which 0 selects the default: 0 becomes 1 ns.
inline std::uint64_t to_ns_above_0(std::chrono::nanoseconds timeout) {
  return std::max<std::uint64_t>(to_ns(timeout), 1);
}

/// @private
inline fw_factor to_factor(const Factor& factor) {
  fw_factor c = {};
  c.is_whole = factor.is_whole() ? 1 : 0;
  c.whole = factor.whole();
  c.real = factor.real();
  return c;
}

/// @private
inline SegmentInfo to_info(const fw_segment_info& known) {
  SegmentInfo info;
  const fw_segment_spec& spec = *known.spec;
  info.spec.name = spec.name;
  info.spec.type = static_cast<ElementType>(spec.type);
  info.spec.dims.assign(spec.dims, spec.dims + spec.rank);
  info.spec.description = spec.description;
  info.spec.buffers = spec.buffers;
  info.spec.temporary = spec.temporary != 0;
  info.key = known.key;
  info.bytes = known.bytes;
  info.epoch = known.id.epoch;
  info.version = known.id.version;
  info.attached = known.attached;
  info.silent = known.silent;
  info.age = std::chrono::nanoseconds(static_cast<std::int64_t>(known.age_ns));
  return info;
}

/// @private An attachment, and what never changes of it.
struct AttachedSegment {
  explicit AttachedSegment(Only<fw_segment> segment) : handle(std::move(segment)) {
    fw_segment_info known = {};
    known.struct_size = sizeof(known);
    fw_segment_get(handle.get(), &known);
    info = to_info(known);
  }

  const Only<fw_segment> handle;
  SegmentInfo info;
};

/// @private
using OnVersion = std::function<void(const Result<VersionId>&)>;

/// @private Calls what the context holds, and frees it.
inline void call_on_version(void* context, const fw_status* status,
                            const fw_version_id* id) noexcept {
  const std::unique_ptr<OnVersion> callback(static_cast<OnVersion*>(context));
  if (status != nullptr) return (*callback)(copy_of(status));
  (*callback)(VersionId{id->epoch, id->version});
}

/// @private
using ReadOwner = Context<std::shared_ptr<const void>>;

/// @private
inline fw_change to_change(const Change& change) {
  fw_change c = {};
  c.struct_size = sizeof(c);
  c.exact = 1;
  c.operation = static_cast<std::uint32_t>(change.operation);
  c.new_epoch = change.new_epoch ? 1 : 0;
  c.offset = change.offset;
  c.length = change.length;
  c.factor = to_factor(change.factor);
  c.memory = change.memory.data;
  c.memory_bytes = change.memory.size;
  c.x_key = change.x_key;
  c.x_offset = change.x_offset;
  c.y_key = change.y_key;
  c.y_offset = change.y_offset;
  return c;
}

static_assert(Change::kWhole == FW_WHOLE);

}  // namespace internal

/// destination += factor * source, for `elements` elements of the two arrays in this process, which
/// may not overlap. The arithmetic of Operation::kAccumulate, in this thread. kInvalidArgument,
/// with nothing added, for what the server refuses: kBytes, or a factor that is no value of an
/// integer `type`.
inline Status add_scaled(ElementType type, void* destination, const void* source, Factor factor,
                         std::uint64_t elements) {
  return internal::taken(fw_add_scaled(static_cast<std::uint32_t>(type), destination, source,
                                       internal::to_factor(factor), elements));
}

/// A change on its way. Copies share it.
struct Update {
  Completion done;  ///< ok: applied, and every later read of any client sees it
  /// The segment's version after the change. Valid once `done` is ok.
  std::shared_ptr<const std::uint64_t> version;
};

/// Memory that a lease pins. Copies share the lease, which ends with the last of them, and not
/// before that with the client, the connection or the server. On one host the bytes are the
/// server's own, without a copy; between hosts they were read once. A forked child may read them as
/// long as it lives.
class LeasedSegment {
 public:
  LeasedSegment() = default;
  /// @private Made by Segment::lease(), takes the lease over.
  LeasedSegment(const fw_slice& slice, const fw_version_id& id)
      : lease_(internal::owned(slice.lease, fw_lease_release)),
        bytes_(slice.data, static_cast<std::size_t>(slice.bytes)),
        id_{id.epoch, id.version} {}
  ByteView bytes() const { return bytes_; }              ///< valid as long as a copy of this object
  std::uint64_t epoch() const { return id_.epoch; }      ///< of the version
  std::uint64_t version() const { return id_.version; }  ///< of the bytes

 private:
  std::shared_ptr<fw_lease> lease_;
  ByteView bytes_;
  VersionId id_;
};

/// A segment of a box, attached by a client. Copies share the attachment. It ends with detach() or
/// the last copy. Thread-safe.
class Segment {
 public:
  Segment() = default;
  /// @private Made by Client, takes the handle over.
  explicit Segment(fw_segment* handle)
      : state_(std::make_shared<internal::AttachedSegment>(
            internal::only(handle, fw_segment_release))) {}
  /// @private
  fw_segment* handle() const { return state_->handle.get(); }
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// The segment as it was when this client attached it.
  const SegmentInfo& info() const { return state_->info; }
  /// The number of changes applied, read from the server's memory. kNotFound once it was freed.
  Result<std::uint64_t> version() const;
  /// The epoch and the version, read from the server's memory. While a change gives a new epoch,
  /// the two may be of two moments between hosts; read() and lease() always return both of one.
  Result<VersionId> version_id() const;
  /// The changes that each piece of kChunkBytes has seen.
  Result<std::vector<std::uint64_t>> chunk_versions() const;

  /// Reads `out.size` bytes from `offset` on. One-sided, and never torn: the versions are compared
  /// before and after. After a few failed tries the server pins a buffer for the read.
  /// kResourceExhausted if other leases take every buffer for longer than ClientOptions::timeout.
  Result<ReadResult> read(MutableByteView out, std::uint64_t offset = 0,
                          const ReadOptions& options = {}) const;
  /// Posts one change. The server applies the changes of one client in the order of posting. With a
  /// `wait`, returns when the change is done or that time has passed, which is faster than
  /// Completion::wait(): this thread takes the server's answer itself.
  Update post(const Change& change,
              std::chrono::nanoseconds wait = std::chrono::nanoseconds(0)) const;
  /// Waits until the version is at least `version`, and returns what the segment has then. With an
  /// `epoch`, that of the contents which the caller has, another epoch ends the wait as well.
  Result<VersionId> wait(std::uint64_t version, std::chrono::nanoseconds timeout = kForever,
                         std::uint64_t epoch = 0) const;
  /// Calls `callback` once, when wait() would return, or with an error when that can no longer be.
  /// On any thread; it must not block. In it, every call on this client or a segment of it that
  /// would wait for the server fails with kFailedPrecondition; post() does not wait. Returns a
  /// number for cancel().
  std::uint64_t on_version(std::uint64_t version,
                           std::function<void(const Result<VersionId>&)> callback,
                           std::uint64_t epoch = 0) const;
  /// Gives up what on_version() waits for: its callback gets kCancelled in this call, unless it
  /// runs or has run by then.
  void cancel(std::uint64_t wait) const { fw_segment_cancel(handle(), wait); }
  /// kFailedPrecondition in a callback of this client, where nothing may wait for its server.
  Status check_wait() const { return internal::taken(fw_segment_check_wait(handle())); }
  /// Pins the newest version. kResourceExhausted if other versions are leased already, as many as
  /// SegmentSpec::buffers allows, or if the server has no memory to go on with meanwhile.
  Result<LeasedSegment> lease(std::chrono::nanoseconds timeout = kForever) const;
  /// The bytes that are current now, without a copy. They change under the reader. kUnsupported
  /// where the fabric cannot map the server's memory.
  Result<LeasedSegment> view() const;

  /// Ends the attachment. Leases stay valid. A second call is ok.
  Status detach() { return internal::taken(fw_segment_detach(handle())); }
  /// Frees the segment for every client. Their later calls fail with kNotFound.
  Status free() { return internal::taken(fw_segment_free(handle())); }

 private:
  std::shared_ptr<const internal::AttachedSegment> state_;
};

inline Result<std::uint64_t> Segment::version() const {
  const Result<VersionId> id = version_id();
  if (!id.ok()) return id.status();
  return id.value().version;
}

inline Result<VersionId> Segment::version_id() const {
  fw_version_id id = {};
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_segment_version(handle(), &id)));
  return VersionId{id.epoch, id.version};
}

inline Result<std::vector<std::uint64_t>> Segment::chunk_versions() const {
  std::vector<std::uint64_t> versions((info().bytes + kChunkBytes - 1) / kChunkBytes);
  std::uint64_t count = 0;
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_segment_chunk_versions(handle(), versions.data(), versions.size(), &count)));
  return versions;
}

inline Result<ReadResult> Segment::read(MutableByteView out, std::uint64_t offset,
                                        const ReadOptions& options) const {
  fw_read_options c = {};
  c.struct_size = sizeof(c);
  c.by_chunk = options.consistency == Consistency::kChunk ? 1 : 0;
  c.min_version = options.min_version;
  c.epoch = options.epoch;
  c.timeout_ns = internal::to_ns_above_0(options.timeout);
  if (options.owner != nullptr) {
    c.release = internal::ReadOwner::release;
    c.owner = internal::ReadOwner::make(options.owner);
  }
  fw_read_result read = {};
  read.struct_size = sizeof(read);
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_segment_read(handle(), offset, out.data, out.size, &c, &read)));
  ReadResult result;
  result.epoch = read.id.epoch;
  result.version = read.id.version;
  result.retries = read.retries;
  result.leased = read.leased != 0;
  return result;
}

inline Update Segment::post(const Change& change, std::chrono::nanoseconds wait) const {
  const fw_change c = internal::to_change(change);
  fw_completion* posted = nullptr;
  fw_status* const refused = fw_segment_post(handle(), &c, internal::to_ns(wait), &posted);
  Completion done = Completion::adopt(refused, posted);
  if (done.handle() == nullptr) return {std::move(done), std::make_shared<std::uint64_t>(0)};
  // The library writes the number before it ends the change, and keeps it as long as the handle.
  const std::uint64_t* const version = fw_segment_changed(done.handle().get());
  return {done, {done.handle(), version}};
}

inline Result<VersionId> Segment::wait(std::uint64_t version, std::chrono::nanoseconds timeout,
                                       std::uint64_t epoch) const {
  fw_version_id id = {};
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_segment_wait(handle(), version, epoch, internal::to_ns(timeout), &id)));
  return VersionId{id.epoch, id.version};
}

inline std::uint64_t Segment::on_version(std::uint64_t version,
                                         std::function<void(const Result<VersionId>&)> callback,
                                         std::uint64_t epoch) const {
  if (!callback) callback = [](const Result<VersionId>&) {};
  std::uint64_t wait = 0;
  // Fails for a NULL alone.
  fw_status_free(fw_segment_on_version(handle(), version, epoch, internal::call_on_version,
                                       new internal::OnVersion(std::move(callback)), &wait));
  return wait;
}

inline Result<LeasedSegment> Segment::lease(std::chrono::nanoseconds timeout) const {
  fw_slice slice = {};
  fw_version_id id = {};
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_segment_lease(handle(), internal::to_ns(timeout), &slice, &id)));
  return LeasedSegment(slice, id);
}

inline Result<LeasedSegment> Segment::view() const {
  fw_slice slice = {};
  fw_version_id id = {};
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_segment_view(handle(), &slice, &id)));
  return LeasedSegment(slice, id);
}

}  // namespace box
FARWRITE_END
