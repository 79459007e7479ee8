// The digests of messages as FIPS 180-4 and its examples give them.
#include "core/sha256.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace farwrite::core {
namespace {

std::string hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest) {
    text += kDigits[std::to_integer<int>(byte >> 4)];
    text += kDigits[std::to_integer<int>(byte & std::byte{15})];
  }
  return text;
}

std::string sha256_hex(const std::string& message) {
  return hex(sha256({message.data(), message.size()}));
}

TEST(Sha256, MatchesThePublishedExamples) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                       "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

TEST(Sha256, MatchesTheExampleOfAMillionBytes) {
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The padding changes shape at 55|56 and the block ends at 64. Values from Python's hashlib.
TEST(Sha256, PadsCorrectlyAroundTheEndOfABlock) {
  EXPECT_EQ(sha256_hex(std::string(55, 'x')),
            "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256_hex(std::string(56, 'x')),
            "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256_hex(std::string(63, 'x')),
            "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256_hex(std::string(64, 'x')),
            "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256_hex(std::string(65, 'x')),
            "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
  EXPECT_EQ(sha256_hex(std::string(119, 'x')),
            "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
  EXPECT_EQ(sha256_hex(std::string(120, 'x')),
            "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
  EXPECT_EQ(sha256_hex(std::string(128, 'x')),
            "24da1b81d0b16df6428eee73c69fcb2a93c76bc6df706f0c6670fe6bfe800464");
}

TEST(Sha256, TakesBytesOfAnyValue) {
  std::vector<std::byte> message;
  for (int i = 0; i < 256; ++i) message.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(hex(sha256({message.data(), message.size()})),
            "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880");
}

TEST(ConstantTimeEqual, ComparesSizeAndEveryByte) {
  const std::string left = "0123456789abcdef";
  const auto equal = [&](const std::string& right) {
    return constant_time_equal({left.data(), left.size()}, {right.data(), right.size()});
  };
  EXPECT_TRUE(equal("0123456789abcdef"));
  EXPECT_FALSE(equal("0123456789abcde"));
  EXPECT_FALSE(equal(left + '\0'));
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::string right = left;
    right[i] = static_cast<char>(right[i] ^ 0x80);
    EXPECT_FALSE(equal(right)) << "differs at byte " << i;
  }
  EXPECT_TRUE(constant_time_equal({}, {}));
}

TEST(RandomBytes, FillsTheWholeRangeAndNothingElse) {
  // More than the 256 bytes that the kernel hands out without being interruptible.
  std::vector<std::byte> bytes(4096 + 2, std::byte{0xa5});
  random_bytes({bytes.data() + 1, bytes.size() - 2});
  EXPECT_EQ(bytes.front(), std::byte{0xa5});
  EXPECT_EQ(bytes.back(), std::byte{0xa5});
  for (std::size_t i = 1; i + 16 < bytes.size(); i += 16) {
    const std::set<std::byte> values(bytes.begin() + i, bytes.begin() + i + 16);
    ASSERT_GT(values.size(), 1u) << "16 equal bytes from " << i;
  }
}

TEST(RandomBytes, NeverRepeats) {
  std::set<Digest> seen;
  for (int i = 0; i < 1000; ++i) {
    Digest nonce{};
    random_bytes({nonce.data(), nonce.size()});
    EXPECT_TRUE(seen.insert(nonce).second);
  }
}

}  // namespace
}  // namespace farwrite::core
