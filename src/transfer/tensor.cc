// The public handles: each call goes to the state behind it.
#include "transfer/tensor.h"

#include <utility>

#include "transfer/received.h"
#include "transfer/receiver_state.h"
#include "transfer/sender_state.h"

namespace farwrite {

const TensorSpec& ReceivedTensor::spec() const { return state_->spec; }
const std::byte* ReceivedTensor::data() const { return state_->data; }
std::uint64_t ReceivedTensor::size() const { return state_->bytes; }
std::uint64_t ReceivedTensor::sequence() const { return state_->sequence; }
Arrival ReceivedTensor::arrival() const { return state_->arrival; }

Result<TensorReceiver> TensorReceiver::open(const Channel& channel, std::string_view name,
                                            const ReceiverOptions& options) {
  auto state = transfer::ReceiverState::open(channel, name, options);
  if (!state.ok()) return state.status();
  return TensorReceiver(*std::move(state));
}

Result<ReceivedTensor> TensorReceiver::receive(std::chrono::nanoseconds timeout) {
  return state_->receive(timeout);
}
Result<std::optional<ReceivedTensor>> TensorReceiver::try_receive() {
  return state_->try_receive();
}
Status TensorReceiver::wait(std::chrono::nanoseconds timeout) { return state_->wait(timeout); }
Status TensorReceiver::reset() { return state_->reset(); }
TensorStats TensorReceiver::stats() const { return state_->stats(); }
Status TensorReceiver::close(std::chrono::nanoseconds timeout) { return state_->close(timeout); }

Result<TensorSender> TensorSender::open(const Device& device, const Channel& channel,
                                        std::string_view name, std::chrono::nanoseconds timeout) {
  auto state = transfer::SenderState::open(device, channel, name, timeout);
  if (!state.ok()) return state.status();
  return TensorSender(*std::move(state));
}

EdgeKind TensorSender::kind() const { return state_->kind(); }
const TensorSpec& TensorSender::announced() const { return state_->announced(); }
Completion TensorSender::send(const TensorSpec& spec, ByteView bytes,
                              std::chrono::nanoseconds timeout) {
  return state_->send(spec, bytes, timeout);
}
TensorStats TensorSender::stats() const { return state_->stats(); }
Status TensorSender::close(std::chrono::nanoseconds timeout) { return state_->close(timeout); }
Status TensorSender::abandon() { return state_->abandon(); }

}  // namespace farwrite
