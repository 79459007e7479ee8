#include "python/held.h"

namespace farwrite::python {

void throw_forked_use() {
  throw ForkedUse(
      Status::error(StatusCode::kForked, {"use an object of Farwrite"},
                    "this process is a forked child, and the object belongs to its parent process",
                    "open a device after the fork, or use the spawn start method"));
}

}  // namespace farwrite::python
