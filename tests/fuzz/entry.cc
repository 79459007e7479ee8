// libFuzzer's way into the one target of this program.
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const farwrite::fuzz::Target target = farwrite::fuzz::targets().at(0);
  target.run({data, size});
  return 0;
}
