// The C ABI: segments of a box.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "c_api/handles.h"
#include "c_api/segment_info.h"

using farwrite::Result;
using farwrite::Status;
using farwrite::StatusCode;
using farwrite::box::Change;
using farwrite::box::Factor;
using farwrite::box::LeasedSegment;
using farwrite::box::Operation;
using farwrite::box::VersionId;
using farwrite::c_api::bytes_at;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;

namespace {

using OnVersion = void (*)(void* context, const fw_status* status, const fw_version_id* id);

// A callback that is owed one call.
class VersionWait {
 public:
  VersionWait(OnVersion callback, void* context) : callback_(callback), context_(context) {}
  ~VersionWait() {
    if (fork_guard_.in_forked_child()) return;  // the callback is the parent's
    tell(Status::error(StatusCode::kCancelled, {"wait for a version"}, "the wait was cancelled",
                       "wait anew"));
  }
  VersionWait(const VersionWait&) = delete;
  VersionWait& operator=(const VersionWait&) = delete;

  void tell(const Result<VersionId>& reached) {
    if (told_.exchange(true)) return;
    if (reached.ok()) {
      const fw_version_id id = {reached.value().epoch, reached.value().version};
      return callback_(context_, nullptr, &id);
    }
    const fw_status failed{reached.status()};
    callback_(context_, &failed, nullptr);
  }

 private:
  const OnVersion callback_;
  void* const context_;
  std::atomic<bool> told_{false};
  const farwrite::core::ForkGuard fork_guard_;
};

Factor to_factor(const fw_factor& factor) {
  return factor.is_whole != 0 ? Factor(factor.whole) : Factor(factor.real);
}

// The leased bytes, and what keeps them valid.
fw_slice to_slice(const LeasedSegment& leased) {
  return {leased.bytes().data, leased.bytes().size,
          new fw_lease{std::make_shared<LeasedSegment>(leased)}};
}

}  // namespace

void fw_segment_get(const fw_segment* segment, fw_segment_info* info) {
  if (segment == nullptr || info == nullptr) return;
  farwrite::c_api::fill(*info, farwrite::c_api::to_info(segment->segment.info(), &segment->spec));
}

fw_status* fw_segment_version(const fw_segment* segment, fw_version_id* id) {
  if (fw_status* const refused =
          refuse_null("read a version", {{"segment", segment != nullptr}, {"id", id != nullptr}})) {
    return refused;
  }
  const auto now = segment->segment.version_id();
  if (!now.ok()) return to_c(now.status());
  *id = {now.value().epoch, now.value().version};
  return nullptr;
}

fw_status* fw_segment_chunk_versions(const fw_segment* segment, uint64_t* versions,
                                     uint64_t capacity, uint64_t* count) {
  if (fw_status* const refused =
          refuse_null("read versions", {{"segment", segment != nullptr},
                                        bytes_at("versions", versions, capacity),
                                        {"count", count != nullptr}})) {
    return refused;
  }
  const auto read = segment->segment.chunk_versions();
  if (!read.ok()) return to_c(read.status());
  const std::vector<std::uint64_t>& chunks = read.value();
  std::copy_n(chunks.begin(), std::min<uint64_t>(capacity, chunks.size()), versions);
  *count = chunks.size();
  return nullptr;
}

fw_status* fw_segment_read(const fw_segment* segment, uint64_t offset, void* destination,
                           uint64_t bytes, const fw_read_options* options, fw_read_result* result) {
  farwrite::box::ReadOptions chosen;
  if (options != nullptr) {
    const auto sized = farwrite::c_api::taken("fw_read_options", *options);
    if (!sized.ok()) {
      constexpr std::size_t kOwned = offsetof(fw_read_options, release) + sizeof(options->release);
      if (options->struct_size >= kOwned && options->release != nullptr) {
        options->release(options->owner);
      }
      return to_c(sized.status());
    }
    const fw_read_options& c = sized.value();
    if (c.by_chunk != 0) chosen.consistency = farwrite::box::Consistency::kChunk;
    chosen.min_version = c.min_version;
    chosen.epoch = c.epoch;
    if (c.timeout_ns != 0) chosen.timeout = to_duration(c.timeout_ns);
    if (c.release != nullptr) chosen.owner = farwrite::c_api::keep(c.owner, c.release);
  }
  if (fw_status* const refused = refuse_null(
          "read a segment",
          {{"segment", segment != nullptr}, bytes_at("destination", destination, bytes)})) {
    return refused;
  }
  const auto read = segment->segment.read({destination, bytes}, offset, chosen);
  if (!read.ok()) return to_c(read.status());
  if (result != nullptr) {
    fw_read_result known = {};
    known.id = {read.value().epoch, read.value().version};
    known.retries = read.value().retries;
    known.leased = read.value().leased ? 1 : 0;
    farwrite::c_api::fill(*result, known);
  }
  return nullptr;
}

fw_status* fw_segment_post(fw_segment* segment, const fw_change* change, uint64_t wait_ns,
                           fw_completion** completion) {
  constexpr const char* kOperation = "change a segment";
  if (fw_status* const refused = refuse_null(kOperation, {{"segment", segment != nullptr},
                                                          {"change", change != nullptr},
                                                          {"completion", completion != nullptr}})) {
    return refused;
  }
  const auto sized = farwrite::c_api::taken("fw_change", *change);
  if (!sized.ok()) return to_c(sized.status());
  const fw_change& c = sized.value();
  if (fw_status* const refused =
          refuse_null(kOperation, {bytes_at("memory", c.memory, c.memory_bytes)})) {
    return refused;
  }
  if (c.operation < FW_WRITE || c.operation > FW_SIGNAL) {
    return to_c(Status::error(StatusCode::kInvalidArgument, {kOperation},
                              "there is no operation " + std::to_string(c.operation),
                              "use a number of fw_operation"));
  }
  const bool exact = c.exact != 0;
  const bool takes_x = c.operation <= FW_AXPY || c.operation == FW_SWAP;
  if (takes_x && c.memory == nullptr && c.x_key == 0 && !exact) {
    return to_c(Status::error(StatusCode::kInvalidArgument, {kOperation},
                              "memory is NULL and x_key is 0", "give one of them"));
  }
  const auto update =
      segment->segment.post({.operation = static_cast<Operation>(c.operation),
                             .offset = c.offset,
                             .length = c.length == 0 && !exact ? Change::kWhole : c.length,
                             .factor = to_factor(c.factor),
                             .memory = {c.memory, c.memory_bytes},
                             .x_key = c.x_key,
                             .x_offset = c.x_offset,
                             .y_key = c.y_key,
                             .y_offset = c.y_offset,
                             .new_epoch = c.new_epoch != 0},
                            to_duration(wait_ns));
  if (update.done.settled()) {
    Status status = update.done.wait();
    if (!status.ok()) return to_c(std::move(status));
  }
  *completion = new fw_completion{update.done, update.version};
  return nullptr;
}

static_assert(FW_WHOLE == Change::kWhole);

const uint64_t* fw_segment_changed(const fw_completion* completion) {
  return completion == nullptr ? nullptr : completion->version.get();
}

fw_status* fw_segment_wait(const fw_segment* segment, uint64_t version, uint64_t epoch,
                           uint64_t timeout_ns, fw_version_id* id) {
  if (fw_status* const refused =
          refuse_null("wait for a version", {{"segment", segment != nullptr}})) {
    return refused;
  }
  const auto reached = segment->segment.wait(version, to_duration(timeout_ns), epoch);
  if (!reached.ok()) return to_c(reached.status());
  if (id != nullptr) *id = {reached.value().epoch, reached.value().version};
  return nullptr;
}

fw_status* fw_segment_on_version(const fw_segment* segment, uint64_t version, uint64_t epoch,
                                 OnVersion callback, void* context, uint64_t* wait) {
  if (fw_status* const refused =
          refuse_null("wait for a version", {{"segment", segment != nullptr},
                                             {"callback", callback != nullptr},
                                             {"wait", wait != nullptr}})) {
    return refused;
  }
  // A callback that comes at once may release the handle.
  const farwrite::box::Segment kept = segment->segment;
  const auto owed = std::make_shared<VersionWait>(callback, context);
  const uint64_t number = kept.on_version(
      version, [owed](const Result<VersionId>& reached) { owed->tell(reached); }, epoch);
  *wait = number;
  return nullptr;
}

void fw_segment_cancel(const fw_segment* segment, uint64_t wait) {
  if (segment == nullptr) return;
  const farwrite::box::Segment kept = segment->segment;  // the callback may release the handle
  kept.cancel(wait);
}

fw_status* fw_segment_check_wait(const fw_segment* segment) {
  if (fw_status* const refused =
          refuse_null("wait for the server", {{"segment", segment != nullptr}})) {
    return refused;
  }
  return to_c(segment->segment.check_wait());
}

fw_status* fw_segment_lease(const fw_segment* segment, uint64_t timeout_ns, fw_slice* slice,
                            fw_version_id* id) {
  if (fw_status* const refused = refuse_null(
          "lease a segment",
          {{"segment", segment != nullptr}, {"slice", slice != nullptr}, {"id", id != nullptr}})) {
    return refused;
  }
  const auto leased = segment->segment.lease(to_duration(timeout_ns));
  if (!leased.ok()) return to_c(leased.status());
  *slice = to_slice(leased.value());
  *id = {leased.value().epoch(), leased.value().version()};
  return nullptr;
}

fw_status* fw_segment_view(const fw_segment* segment, fw_slice* slice, fw_version_id* id) {
  if (fw_status* const refused = refuse_null(
          "view a segment", {{"segment", segment != nullptr}, {"slice", slice != nullptr}})) {
    return refused;
  }
  const auto view = segment->segment.view();
  if (!view.ok()) return to_c(view.status());
  *slice = to_slice(view.value());
  if (id != nullptr) *id = {view.value().epoch(), view.value().version()};
  return nullptr;
}

fw_status* fw_segment_detach(fw_segment* segment) {
  if (segment == nullptr) return nullptr;
  farwrite::box::Segment detached = segment->segment;  // the handle may go with a callback
  return to_c(detached.detach());
}

fw_status* fw_segment_free(fw_segment* segment) {
  if (segment == nullptr) return nullptr;
  farwrite::box::Segment freed = segment->segment;  // likewise
  return to_c(freed.free());
}

void fw_segment_release(fw_segment* segment) { delete segment; }

fw_status* fw_add_scaled(uint32_t type, void* destination, const void* source, fw_factor factor,
                         uint64_t elements) {
  constexpr const char* kOperation = "add to an array";
  if (fw_status* const refused = refuse_null(
          kOperation,
          {bytes_at("destination", destination, elements), bytes_at("source", source, elements)})) {
    return refused;
  }
  if (type > FW_INT64) {
    return to_c(Status::error(StatusCode::kInvalidArgument, {kOperation},
                              "there is no type " + std::to_string(type),
                              "use a number of fw_element"));
  }
  return to_c(farwrite::box::add_scaled(static_cast<farwrite::box::ElementType>(type), destination,
                                        source, to_factor(factor), elements));
}
