// Waits for an array from sender.cc and sums it where it was written.
#include <farwrite/farwrite.h>

#include <cstddef>
#include <cstdio>
#include <numeric>

namespace {

constexpr std::size_t kCount = 1024 * 1024;

farwrite::Status receive() {
  farwrite::DeviceOptions options;
  options.listen = {"127.0.0.1", 7777};
  auto device = farwrite::Device::open(options);
  if (!device) return device.status();
  auto channel = device->accept();
  if (!channel) return channel.status();

  auto inbox = channel->allocate(kCount * sizeof(float));
  if (!inbox) return inbox.status();
  FARWRITE_RETURN_IF_ERROR(channel->publish("inbox", *inbox));
  auto notification = channel->wait_notification();
  if (!notification) return notification.status();

  const auto* numbers = reinterpret_cast<const float*>(inbox->data());
  std::printf("%.1f\n", std::accumulate(numbers, numbers + kCount, 0.0));
  return {};
}

}  // namespace

int main() {
  const farwrite::Status status = receive();
  if (!status) std::fprintf(stderr, "receiver: %s\n", status.to_string().c_str());
  return status ? 0 : 1;
}
