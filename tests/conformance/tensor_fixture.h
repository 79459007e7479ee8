// Edges between the two ends of a channel, for the tests of tensors.
#pragma once

#include <cstring>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {

// An edge from `near` to `far`.
struct Edge {
  TensorSender sender;
  TensorReceiver receiver;
};

inline TensorSpec bytes_spec(std::vector<std::uint64_t> dims) {
  return {"|u1", 1, std::move(dims)};
}

inline ReceiverOptions static_edge(TensorSpec spec, std::uint32_t slots = 2) {
  ReceiverOptions options;
  options.kind = EdgeKind::kStatic;
  options.spec = std::move(spec);
  options.slots = slots;
  return options;
}

inline ReceiverOptions bounded_edge(std::string dtype, std::uint32_t item_bytes,
                                    std::uint64_t max_bytes, std::uint32_t slots = 2) {
  ReceiverOptions options;
  options.kind = EdgeKind::kBounded;
  options.spec = {std::move(dtype), item_bytes, {}};
  options.max_bytes = max_bytes;
  options.slots = slots;
  return options;
}

class Tensors : public ConformancePair {
 protected:
  Edge open_edge(const std::string& name, const ReceiverOptions& options) {
    Result<TensorReceiver> receiver = TensorReceiver::open(far_, name, options);
    EXPECT_OK(receiver);
    if (!receiver.ok()) return {};
    Result<TensorSender> sender = TensorSender::open(near_device_, near_, name, kHang);
    EXPECT_OK(sender);
    if (!sender.ok()) return {};
    return {*std::move(sender), *std::move(receiver)};
  }

  // Sends make_bytes(size of spec, seed) and waits until the source may be reused.
  static Status send(TensorSender& sender, const TensorSpec& spec, std::uint32_t seed) {
    Result<std::uint64_t> size = spec.bytes();
    if (!size.ok()) return size.status();
    const std::vector<std::byte> source = make_bytes(*size, seed);
    return wait_until_settled(sender.send(spec, {source.data(), source.size()}));
  }

  // Whether the sender gets hold of so many free slots.
  static bool has_slots(const TensorSender& sender, std::uint64_t slots) {
    return eventually([&] { return sender.stats().slots_granted >= slots; });
  }

  // The next tensor, which must be of `spec` and hold make_bytes(its size, seed).
  static ReceivedTensor take(TensorReceiver& receiver, const TensorSpec& spec, std::uint32_t seed) {
    Result<ReceivedTensor> received = receiver.receive(kHang);
    EXPECT_OK(received);
    if (!received.ok()) return {};
    EXPECT_TRUE(received->spec() == spec);
    EXPECT_NE(received->data(), nullptr);
    EXPECT_TRUE(holds(received->data(), received->size(), seed));
    return *std::move(received);
  }
};

// Of a static or bounded edge whose views are gone: every grant is accounted for.
inline void expect_balance(const TensorReceiver& receiver) {
  const TensorStats stats = receiver.stats();
  EXPECT_EQ(stats.grants, stats.pushed + stats.dropped_stale + stats.dropped_malformed +
                              stats.revoked + stats.slots_granted);
}
inline void expect_balance(const TensorSender& sender) {
  const TensorStats stats = sender.stats();
  EXPECT_EQ(stats.grants, stats.pushed + stats.slots_granted);
}

}  // namespace farwrite
