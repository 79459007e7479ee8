#include <gtest/gtest.h>

#include <map>
#include <string>

#include "box/box.h"

namespace farwrite::box {
namespace {

struct Described {
  std::string name;
  std::uint64_t bytes;
};

const std::map<ElementType, Described>& described() {
  static const std::map<ElementType, Described> all = {
      {ElementType::kBytes, {"bytes", 1}},       {ElementType::kFloat64, {"float64", 8}},
      {ElementType::kFloat32, {"float32", 4}},   {ElementType::kFloat16, {"float16", 2}},
      {ElementType::kBFloat16, {"bfloat16", 2}}, {ElementType::kInt32, {"int32", 4}},
      {ElementType::kInt64, {"int64", 8}}};
  return all;
}

TEST(ElementType, HasTheNameAndTheSizeThatNumPyGivesIt) {
  for (const auto& [type, expected] : described()) {
    EXPECT_EQ(to_string(type), expected.name);
    EXPECT_EQ(bytes_of(type), expected.bytes) << expected.name;
  }
}

TEST(ElementType, IsFoundByItsName) {
  for (const auto& [type, expected] : described()) {
    Result<ElementType> parsed = parse_element_type(expected.name);
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, type);
  }
}

TEST(ElementType, IsNotFoundByAnyOtherText) {
  for (const std::string name : {"", "float", "Float32", "float32 ", "uint8"}) {
    const Result<ElementType> parsed = parse_element_type(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(parsed.status().message(),
              "choose an element type: \"" + name +
                  "\" is not an element type; use one of bytes, float64, float32, float16, "
                  "bfloat16, int32, int64");
  }
}

// The numbers cross the wire and lie in snapshots.
TEST(ElementType, KeepsItsNumber) {
  const ElementType in_order[] = {
      ElementType::kBytes,    ElementType::kFloat64, ElementType::kFloat32, ElementType::kFloat16,
      ElementType::kBFloat16, ElementType::kInt32,   ElementType::kInt64};
  int number = 0;
  for (const ElementType type : in_order) EXPECT_EQ(static_cast<int>(type), number++);
}

TEST(ElementType, HasAPrintableNameForAnUnknownNumber) {
  EXPECT_EQ(to_string(static_cast<ElementType>(200)), "unknown element type");
}

}  // namespace
}  // namespace farwrite::box
