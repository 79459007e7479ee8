// Streams tensors to a second process and gets their sums back, over one channel.
//
//   tensors sum     receives batches and sends the sum of each
//   tensors send    sends the batches and prints the sums
//
// Both streams have a fixed shape, so each tensor is one write into memory that its receiver has
// granted.
#include <farwrite/farwrite.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <vector>

namespace {

constexpr std::uint32_t kBatches = 5;
constexpr std::size_t kNumbers = 1024 * 256;  // in a batch

const farwrite::TensorSpec& batch_spec() {
  static const farwrite::TensorSpec spec{"<f4", sizeof(float), {1024, 256}};
  return spec;
}

const farwrite::TensorSpec& sum_spec() {
  static const farwrite::TensorSpec spec{"<f8", sizeof(double), {}};
  return spec;
}

// A slot for every tensor: the sender never finds all slots taken.
farwrite::ReceiverOptions receive_all(const farwrite::TensorSpec& spec) {
  farwrite::ReceiverOptions options;
  options.kind = farwrite::EdgeKind::kStatic;
  options.spec = spec;
  options.slots = kBatches;
  return options;
}

farwrite::Status sum_batches() {
  farwrite::DeviceOptions options;
  options.listen = {"127.0.0.1", 7777};
  auto device = farwrite::Device::open(options);
  if (!device) return device.status();
  auto channel = device->accept();
  if (!channel) return channel.status();
  auto batches = farwrite::TensorReceiver::open(*channel, "batches", receive_all(batch_spec()));
  if (!batches) return batches.status();
  auto sums = farwrite::TensorSender::open(*device, *channel, "sums");
  if (!sums) return sums.status();

  auto batch = batches->receive();
  for (; batch; batch = batches->receive()) {
    const auto* numbers = reinterpret_cast<const float*>(batch->data());
    const double sum = std::accumulate(numbers, numbers + kNumbers, 0.0);
    FARWRITE_RETURN_IF_ERROR(sums->send(sum_spec(), {&sum, sizeof(sum)}).wait());
  }
  // Every other error means that the stream ended early.
  const bool at_end = batch.status().code() == farwrite::StatusCode::kEndOfStream;
  return at_end ? sums->close() : batch.status();
}

farwrite::Status send_batches() {
  auto device = farwrite::Device::open();
  if (!device) return device.status();
  auto channel = device->connect({"127.0.0.1", 7777});
  if (!channel) return channel.status();
  auto sums = farwrite::TensorReceiver::open(*channel, "sums", receive_all(sum_spec()));
  if (!sums) return sums.status();
  auto batches = farwrite::TensorSender::open(*device, *channel, "batches");
  if (!batches) return batches.status();

  for (std::uint32_t number = 0; number < kBatches; ++number) {
    const std::vector<float> batch(kNumbers, static_cast<float>(number));
    const farwrite::ByteView bytes(batch.data(), batch.size() * sizeof(float));
    FARWRITE_RETURN_IF_ERROR(batches->send(batch_spec(), bytes).wait());
  }
  for (std::uint32_t number = 0; number < kBatches; ++number) {
    auto sum = sums->receive();
    if (!sum) return sum.status();
    std::printf("batch %u: %.0f\n", number, *reinterpret_cast<const double*>(sum->data()));
  }
  return batches->close();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view role = argc == 2 ? argv[1] : "";
  if (role != "sum" && role != "send") {
    std::fprintf(stderr, "usage: tensors sum|send\n");
    return 2;
  }
  const farwrite::Status status = role == "sum" ? sum_batches() : send_batches();
  if (!status) std::fprintf(stderr, "tensors: %s\n", status.to_string().c_str());
  return status ? 0 : 1;
}
