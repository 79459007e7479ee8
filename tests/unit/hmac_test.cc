// The test cases of RFC 4231, and the key lengths around the block.
#include <gtest/gtest.h>

#include <string>

#include "core/sha256.h"

namespace farwrite::core {
namespace {

std::string hmac_hex(const std::string& key, const std::string& message) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte :
       hmac_sha256({key.data(), key.size()}, {message.data(), message.size()})) {
    text += kDigits[std::to_integer<int>(byte >> 4)];
    text += kDigits[std::to_integer<int>(byte & std::byte{15})];
  }
  return text;
}

TEST(HmacSha256, MatchesRfc4231Case1) {
  EXPECT_EQ(hmac_hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST(HmacSha256, MatchesRfc4231Case2WithAShortKey) {
  EXPECT_EQ(hmac_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(HmacSha256, MatchesRfc4231Case3) {
  EXPECT_EQ(hmac_hex(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

TEST(HmacSha256, MatchesRfc4231Case4) {
  std::string key;
  for (char c = 1; c <= 25; ++c) key += c;
  EXPECT_EQ(hmac_hex(key, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

// The RFC prints the first 16 bytes of this one.
TEST(HmacSha256, MatchesRfc4231Case5) {
  EXPECT_EQ(hmac_hex(std::string(20, '\x0c'), "Test With Truncation").substr(0, 32),
            "a3b6167473100ee06e0c796c2955552b");
}

TEST(HmacSha256, MatchesRfc4231Case6WithAKeyLongerThanTheBlock) {
  EXPECT_EQ(
      hmac_hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256, MatchesRfc4231Case7WithAKeyAndAMessageLongerThanTheBlock) {
  EXPECT_EQ(
      hmac_hex(std::string(131, '\xaa'),
               "This is a test using a larger than block-size key and a larger than block-size "
               "data. The key needs to be hashed before being used by the HMAC algorithm."),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

// A key of exactly one block is used as it is, one byte more is hashed. Values from Python's hmac.
TEST(HmacSha256, HashesTheKeyOnlyWhenItIsLongerThanTheBlock) {
  EXPECT_EQ(hmac_hex(std::string(63, 'k'), "message"),
            "e27efa30bcbfbc25b4d936ffd8553392f398eb2edada1dac2423a961af0c305b");
  EXPECT_EQ(hmac_hex(std::string(64, 'k'), "message"),
            "890f3a16e0ca0aaa3bf180f70fa8e3970b3fd6505e98fde157988dcc19d1685c");
  EXPECT_EQ(hmac_hex(std::string(65, 'k'), "message"),
            "0c256505306af48015530c139bb7add5ad7a6a9291cd511278a067e765816fbd");
}

TEST(HmacSha256, AcceptsAnEmptyKeyAndAnEmptyMessage) {
  EXPECT_EQ(hmac_hex("", ""), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

}  // namespace
}  // namespace farwrite::core
