// What a tensor's bytes mean, and the words for it.
#include <algorithm>
#include <string>

#include "farwrite/tensor.h"

namespace farwrite {

Result<std::uint64_t> TensorSpec::bytes() const {
  constexpr ErrorContext kWhere{"describe a tensor"};
  if (dims.size() > kMaxDimensions) {
    return Status::error(StatusCode::kInvalidArgument, kWhere,
                         "it has " + std::to_string(dims.size()) + " dimensions",
                         "use at most " + std::to_string(kMaxDimensions));
  }
  if (dtype.size() > kMaxDtypeBytes) {
    return Status::error(StatusCode::kInvalidArgument, kWhere,
                         "its dtype has " + std::to_string(dtype.size()) + " bytes",
                         "use at most " + std::to_string(kMaxDtypeBytes));
  }
  // Empty whatever the other dims are, so that their product need not fit.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return std::uint64_t{0};
  std::uint64_t product = item_bytes;
  for (const std::uint64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) {
      return Status::error(StatusCode::kInvalidArgument, kWhere,
                           "its size does not fit into 64 bits", "use smaller dimensions");
    }
  }
  return product;
}

std::string_view to_string(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kStatic:
      return "static";
    case EdgeKind::kBounded:
      return "bounded";
    case EdgeKind::kDynamic:
      return "dynamic";
  }
  return "unknown kind of edge";
}

std::string_view to_string(Arrival arrival) {
  switch (arrival) {
    case Arrival::kPushed:
      return "pushed";
    case Arrival::kAliased:
      return "aliased";
    case Arrival::kRead:
      return "read";
  }
  return "unknown arrival";
}

}  // namespace farwrite
