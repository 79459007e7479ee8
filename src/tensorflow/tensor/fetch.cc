#include "tensor/fetch.h"

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "farwrite/c_api.h"
#include "stats/stats.h"
#include "tensor/receive.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

std::atomic<std::int64_t> fetches_under_way{0};

// Owns source and destination until no byte moves any more.
struct Fetch {
  ArrivedTensor arrival;
  Fetched fetched;
};

void finish(std::unique_ptr<Fetch> fetch, absl::Status status) {
  fetch->arrival.lent.reset();  // the sender may have it back before a kernel computes with it
  fetches_under_way.fetch_sub(1, std::memory_order_relaxed);
  fetch->fetched(std::move(status), std::move(fetch->arrival));
}

// On a thread of the channel.
void read_over(void* context, const fw_status* status) {
  std::unique_ptr<Fetch> fetch(static_cast<Fetch*>(context));
  ArrivedTensor& arrival = fetch->arrival;
  if (status != nullptr) {
    std::string why = "Farwrite: cannot read a tensor that a peer lent: ";
    finish(std::move(fetch), absl::UnavailableError(why + fw_status_message(status)));
    return;
  }
  if (arrival.of_call) {
    count(stats().call_bodies_read);
  } else {
    count(stats().offers_read);
    count(stats().bytes_read, arrival.tensor_bytes);
  }
  arrival.way = "read";
  arrival.kind = arrival.kind == PushKind::kAlias ? PushKind::kInline : PushKind::kSerialized;
  finish(std::move(fetch), absl::OkStatus());
}

// Where the bytes go; null if there is no memory.
void* make_room(ArrivedTensor& arrival, tf::Allocator* allocator) {
  if (!arrival.of_call) count(stats().read_allocations);
  if (arrival.kind == PushKind::kSerializedLent) {
    try {
      arrival.serialized.resize(arrival.tensor_bytes);
    } catch (const std::exception&) {  // no memory, or more than a string may hold
      return nullptr;
    }
    return arrival.serialized.data();
  }
  arrival.tensor = tf::Tensor(allocator, arrival.dtype, arrival.shape);
  return arrival.tensor.IsInitialized() ? arrival.tensor.data() : nullptr;
}

std::unique_ptr<Fetch> begin(ArrivedTensor arrival, Fetched fetched) {
  auto fetch = std::make_unique<Fetch>();
  fetch->arrival = std::move(arrival);
  fetch->fetched = std::move(fetched);
  fetches_under_way.fetch_add(1, std::memory_order_relaxed);
  return fetch;
}

template <typename Room>
void read(std::unique_ptr<Fetch> fetch, const Room& room) {
  ArrivedTensor& taken = fetch->arrival;
  const absl::Status fits = check_lent_bytes(fw_remote_bytes(taken.lent.get()), taken.tensor_bytes);
  if (!fits.ok()) {
    finish(std::move(fetch), fits);
    return;
  }
  void* const destination = room(taken);
  if (destination == nullptr) {
    finish(std::move(fetch), absl::ResourceExhaustedError("Farwrite: no memory for a tensor of " +
                                                          std::to_string(taken.tensor_bytes) +
                                                          " bytes that a peer lent"));
    return;
  }
  fw_completion* reading = nullptr;
  const FwStatus posted(fw_remote_read(taken.lent.get(), 0, destination, taken.tensor_bytes,
                                       taken.read_lane, &reading));
  if (posted != nullptr) {
    read_over(fetch.release(), posted.get());
    return;
  }
  const FwStatus unheard(fw_completion_on_settled(reading, &read_over, fetch.release()));
  fw_completion_free(reading);
}

}  // namespace

bool must_fetch(const ArrivedTensor& arrival) {
  return arrival.lent != nullptr && fw_remote_maps(arrival.lent.get()) == 0;
}

void fetch(ArrivedTensor arrival, tf::Allocator* allocator, Fetched fetched) {
  read(begin(std::move(arrival), std::move(fetched)),
       [allocator](ArrivedTensor& taken) { return make_room(taken, allocator); });
}

void fetch_into(ArrivedTensor arrival, const tf::Tensor& destination, Fetched fetched) {
  read(begin(std::move(arrival), std::move(fetched)), [&destination](ArrivedTensor& taken) {
    taken.tensor = destination;
    return taken.tensor.data();
  });
}

std::int64_t fetches() { return fetches_under_way.load(std::memory_order_relaxed); }

}  // namespace farwrite::plugin
