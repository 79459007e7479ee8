#include <cstdint>
#include <string>

#include "box/arithmetic.h"
#include "box/box.h"

namespace farwrite::box {

Status add_scaled(ElementType type, void* destination, const void* source, Factor factor,
                  std::uint64_t elements) {
  FARWRITE_RETURN_IF_ERROR(check_factor(type, factor));
  if (elements > SIZE_MAX / bytes_of(type)) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "add to an array"},
                         std::to_string(elements) + " elements fit into no memory",
                         "give the number of elements of the arrays");
  }
  accumulate(type, destination, source, factor, static_cast<std::size_t>(elements));
  return Status();
}

}  // namespace farwrite::box
