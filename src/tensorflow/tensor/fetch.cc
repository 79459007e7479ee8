#include "tensor/fetch.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "stats/stats.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// Where the bytes go; null if there is no memory.
void* make_room(ArrivedTensor& arrival, tf::Allocator* allocator) {
  count(stats().read_allocations);
  if (!arrival.is_proto) {
    arrival.tensor = tf::Tensor(allocator, arrival.dtype, arrival.shape);
    return arrival.tensor.IsInitialized() ? arrival.tensor.data() : nullptr;
  }
  try {
    arrival.proto.resize(arrival.tensor_bytes);
  } catch (const std::exception&) {  // no memory, or more than a string may hold
    return nullptr;
  }
  return arrival.proto.data();
}

// Owns the destination until no byte moves any more.
using SharedArrival = std::shared_ptr<ArrivedTensor>;

SharedArrival shared(ArrivedTensor arrival) {
  return std::make_shared<ArrivedTensor>(std::move(arrival));
}

void read(const SharedArrival& arrival, void* destination, Fetched fetched) {
  RemoteBytes lent = std::move(arrival->lent);
  std::move(lent).read(destination, [arrival, fetched = std::move(fetched)](absl::Status status) {
    if (status.ok()) {
      count(stats().offers_read);
      count(stats().bytes_read, arrival->tensor_bytes);
      arrival->way = "read";
    }
    fetched(std::move(status), std::move(*arrival));
  });
}

}  // namespace

void fetch(ArrivedTensor taken, tf::Allocator* allocator, Fetched fetched) {
  const SharedArrival arrival = shared(std::move(taken));
  void* const destination = make_room(*arrival, allocator);
  if (destination == nullptr) {
    arrival->lent = RemoteBytes();
    fetched(absl::ResourceExhaustedError("Farwrite: no memory for a tensor of " +
                                         std::to_string(arrival->tensor_bytes) +
                                         " bytes that a peer lent"),
            std::move(*arrival));
    return;
  }
  read(arrival, destination, std::move(fetched));
}

void fetch_into(ArrivedTensor taken, const tf::Tensor& destination, Fetched fetched) {
  const SharedArrival arrival = shared(std::move(taken));
  arrival->tensor = destination;
  read(arrival, arrival->tensor.data(), std::move(fetched));
}

}  // namespace farwrite::plugin
