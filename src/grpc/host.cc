#include "grpc/host.h"

#include <fstream>

namespace farwrite::grpc {

const std::string& host_identity() {
  static const std::string identity = [] {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string line;
    std::getline(file, line);
    return line;
  }();
  return identity;
}

}  // namespace farwrite::grpc
