#include "device/identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>

#include "core/sha256.h"
#include "core/wire.h"

namespace farwrite::device {

DeviceUuid uuid_of(const Endpoint& endpoint) {
  core::WireWriter writer;
  writer.string("farwrite device");
  std::ifstream boot_file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(boot_file, boot);
  writer.string(boot);
  struct stat network{};
  if (::stat("/proc/self/ns/net", &network) == 0) writer.u64(network.st_ino);
  writer.string(endpoint.to_string());
  const core::Digest digest = core::sha256(writer.view());
  DeviceUuid uuid{};
  std::transform(digest.begin(), digest.begin() + uuid.size(), uuid.begin(),
                 [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  return uuid;
}

std::uint64_t next_epoch() {
  static std::atomic<std::uint64_t> last{0};
  const auto now = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                                              std::chrono::nanoseconds(1));
  std::uint64_t seen = last.load();
  std::uint64_t next = 0;
  do {
    next = std::max(now, seen + 1);
  } while (!last.compare_exchange_weak(seen, next));
  return next;
}

}  // namespace farwrite::device
