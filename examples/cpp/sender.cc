// Writes an array straight into receiver.cc's memory.
#include <farwrite/farwrite.h>

#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t kCount = 1024 * 1024;

farwrite::Status send() {
  auto device = farwrite::Device::open();
  if (!device) return device.status();
  auto channel = device->connect({"127.0.0.1", 7777});
  if (!channel) return channel.status();
  auto inbox = channel->lookup("inbox");
  if (!inbox) return inbox.status();

  const std::vector<float> ones(kCount, 1.0F);
  const farwrite::ByteView bytes(ones.data(), ones.size() * sizeof(float));
  return channel->write_with_notify(bytes, *inbox, /*offset=*/0, /*tag=*/1).wait();
}

}  // namespace

int main() {
  const farwrite::Status status = send();
  if (!status) std::fprintf(stderr, "sender: %s\n", status.to_string().c_str());
  return status ? 0 : 1;
}
