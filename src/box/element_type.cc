// The element types: their names and their sizes.
#include <string>

#include "farwrite/box.h"

namespace farwrite::box {

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kBytes:
      return "bytes";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kBFloat16:
      return "bfloat16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
  }
  return "unknown element type";
}

Result<ElementType> parse_element_type(std::string_view name) {
  for (const ElementType type :
       {ElementType::kBytes, ElementType::kFloat64, ElementType::kFloat32, ElementType::kFloat16,
        ElementType::kBFloat16, ElementType::kInt32, ElementType::kInt64}) {
    if (name == to_string(type)) return type;
  }
  return Status::error(StatusCode::kInvalidArgument, {.operation = "choose an element type"},
                       "\"" + std::string(name) + "\" is not an element type",
                       "use one of bytes, float64, float32, float16, bfloat16, int32, int64");
}

std::uint64_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 8;
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 4;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kBytes:
      break;
  }
  return 1;
}

}  // namespace farwrite::box
