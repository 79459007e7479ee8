#include "memory/remote_bytes.h"

#include <atomic>
#include <string>
#include <utility>

#include "memory/received_buffer.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/allocator.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

std::atomic<std::int64_t> views{0};
std::atomic<std::int64_t> reads{0};

// A wait for a silent peer looks so often whether a caller still waits for it.
constexpr std::uint64_t kTurnNs = 100'000'000;

// A peer's memory as a tensor's buffer. It does not own the memory, and says so: no kernel takes it
// for its output, and a variable that it was assigned to copies before it writes.
class RemoteBuffer final : public ReceivedBuffer {
 public:
  RemoteBuffer(RemoteBytes bytes, const void* data)
      : ReceivedBuffer(const_cast<void*>(data), bytes.size(), false), bytes_(std::move(bytes)) {
    views.fetch_add(1, std::memory_order_relaxed);
  }
  ~RemoteBuffer() override { views.fetch_sub(1, std::memory_order_relaxed); }

  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<std::int64_t>(size()));
    proto->set_allocator_name("farwrite_lent");
  }

 private:
  const RemoteBytes bytes_;
};

}  // namespace

std::uint64_t RemoteBytes::size() const { return fw_remote_bytes(remote_.get()); }

bool RemoteBytes::unmapped() const {
  return remote_ != nullptr && fw_remote_maps(remote_.get()) == 0;
}

bool RemoteBytes::ready() const {
  return remote_ == nullptr || fw_remote_ready(remote_.get()) != 0;
}

absl::Status RemoteBytes::map(std::uint64_t timeout_ns, const void** data) const {
  std::uint64_t bytes = 0;
  const FwStatus status(fw_remote_map(remote_.get(), timeout_ns, data, &bytes));
  if (status == nullptr) return absl::OkStatus();
  const bool late = fw_status_code(status.get()) == FW_ERROR_DEADLINE_EXCEEDED;
  return absl::Status(late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable,
                      "Farwrite: cannot map what a peer lent: " + message_of(status));
}

absl::Status RemoteBytes::look(const void** data) const { return map(0, data); }

absl::Status RemoteBytes::wait_until_ready(const std::function<bool()>& given_up) const {
  const void* data = nullptr;
  absl::Status mapped;
  do {
    if (given_up()) return absl::CancelledError("Farwrite: what a peer lent is not wanted");
    mapped = map(kTurnNs, &data);
  } while (absl::IsDeadlineExceeded(mapped));
  return mapped;
}

struct RemoteBytes::RunningRead {
  RemoteBytes bytes;
  std::function<void(absl::Status)> over;
};

// On a thread of the channel.
void RemoteBytes::read_over(void* context, const fw_status* status) {
  const std::unique_ptr<RunningRead> read(static_cast<RunningRead*>(context));
  read->bytes = RemoteBytes();  // the peer may have them back before a kernel computes with them
  reads.fetch_sub(1, std::memory_order_relaxed);
  read->over(status == nullptr
                 ? absl::OkStatus()
                 : absl::UnavailableError(std::string("Farwrite: cannot read what a peer lent: ") +
                                          fw_status_message(status)));
}

void RemoteBytes::read(void* destination, std::function<void(absl::Status)> over) && {
  reads.fetch_add(1, std::memory_order_relaxed);
  auto read = std::make_unique<RunningRead>(RunningRead{std::move(*this), std::move(over)});
  fw_completion* reading = nullptr;
  const FwStatus posted(fw_remote_read(read->bytes.remote_.get(), 0, destination,
                                       read->bytes.size(), read->bytes.lane_, &reading));
  if (posted != nullptr) {
    read_over(read.release(), posted.get());
    return;
  }
  const FwStatus unheard(fw_completion_on_settled(reading, &read_over, read.release()));
  fw_completion_free(reading);
}

absl::Status tensor_over(RemoteBytes bytes, tf::DataType dtype, const tf::TensorShape& shape,
                         tf::Tensor* tensor) {
  const void* data = nullptr;
  const absl::Status seen = bytes.look(&data);
  if (!seen.ok()) return seen;
  if (reinterpret_cast<std::uintptr_t>(data) % tf::Allocator::kAllocatorAlignment != 0) {
    return absl::InternalError(
        "Farwrite: a peer lent a tensor whose address is not a multiple of 64");
  }
  auto* const buffer = new RemoteBuffer(std::move(bytes), data);
  *tensor = tf::Tensor(dtype, shape, buffer);
  buffer->Unref();  // the tensor has its own reference
  return absl::OkStatus();
}

std::int64_t held_views() { return views.load(std::memory_order_relaxed); }
std::int64_t remote_reads() { return reads.load(std::memory_order_relaxed); }

}  // namespace farwrite::plugin
