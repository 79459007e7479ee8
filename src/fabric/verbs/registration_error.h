// Why an adapter does not register memory, and what to do.
#pragma once

#include <cstdint>
#include <string>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// What was asked for.
struct RegistrationRequest {
  ByteView memory;
  bool writable = false;
  std::uint64_t registered_bytes = 0;  // by this device already
  std::uint64_t max_bytes = 0;         // the adapter's max_mr_size, 0: unknown
  std::string device;                  // "mlx5_0"
};

// `error_number` is what ibv_reg_mr left in errno.
Status registration_error(const RegistrationRequest& request, int error_number);
// The memory is larger than max_bytes.
Status too_large(const RegistrationRequest& request);

}  // namespace farwrite::fabric::verbs
