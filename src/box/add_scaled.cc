#include "box/arithmetic.h"
#include "farwrite/box.h"

namespace farwrite::box {

void add_scaled(ElementType type, void* destination, const void* source, double factor,
                std::uint64_t elements) {
  if (type == ElementType::kBytes) return;
  accumulate(type, destination, source, factor, static_cast<std::size_t>(elements));
}

}  // namespace farwrite::box
