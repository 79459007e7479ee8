// TensorReceiver and TensorSender of the library: what each does is written in farwrite/tensor.h.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/completion.h"
#include "device/channel.h"
#include "device/device.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "farwrite/tensor_types.h"

namespace farwrite {

namespace transfer {
class ReceiverState;
class SenderState;
class Received;
}  // namespace transfer

class ReceivedTensor {
 public:
  ReceivedTensor() = default;
  explicit ReceivedTensor(std::shared_ptr<const transfer::Received> state)
      : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  const TensorSpec& spec() const;
  const std::byte* data() const;
  std::uint64_t size() const;
  std::uint64_t sequence() const;
  Arrival arrival() const;

 private:
  std::shared_ptr<const transfer::Received> state_;
};

class TensorReceiver {
 public:
  static Result<TensorReceiver> open(const Channel& channel, std::string_view name,
                                     const ReceiverOptions& options);

  TensorReceiver() = default;
  explicit TensorReceiver(std::shared_ptr<transfer::ReceiverState> state)
      : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  Result<ReceivedTensor> receive(std::chrono::nanoseconds timeout = kForever);
  Status wait(std::chrono::nanoseconds timeout = kForever);
  Result<std::optional<ReceivedTensor>> try_receive();

  Status reset();

  TensorStats stats() const;
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<transfer::ReceiverState> state_;
};

class TensorSender {
 public:
  static Result<TensorSender> open(const Device& device, const Channel& channel,
                                   std::string_view name,
                                   std::chrono::nanoseconds timeout = std::chrono::seconds(10));

  TensorSender() = default;
  explicit TensorSender(std::shared_ptr<transfer::SenderState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  EdgeKind kind() const;
  const TensorSpec& announced() const;

  Completion send(const TensorSpec& spec, ByteView bytes,
                  std::chrono::nanoseconds timeout = std::chrono::seconds(10));

  TensorStats stats() const;
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(10));
  Status abandon();

 private:
  std::shared_ptr<transfer::SenderState> state_;
};

}  // namespace farwrite
