#include "core/wire.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace farwrite::core {
namespace {

std::vector<std::byte> to_bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

ByteView view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

TEST(WireWriter, WritesLittleEndianOnEveryMachine) {
  WireWriter writer;
  writer.u8(0x01);
  writer.u16(0x0203);
  writer.u32(0x04050607);
  writer.u64(0x08090a0b0c0d0e0f);
  EXPECT_EQ(writer.buffer(),
            to_bytes({1, 3, 2, 7, 6, 5, 4, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 9, 8}));
}

TEST(WireWriter, PrefixesBlobsAndStringsWithTheirLengthButNotRawBytes) {
  WireWriter writer;
  writer.bytes({"raw", 3});
  writer.blob({"b", 1});
  writer.string("st");
  writer.blob({});
  EXPECT_EQ(writer.buffer(), to_bytes({'r', 'a', 'w', 1, 0, 0, 0, 'b', 2, 0, 0, 0, 's', 't',  //
                                       0, 0, 0, 0}));
}

TEST(WireWriter, PatchesALengthThatIsKnownAfterwards) {
  WireWriter writer;
  writer.u8(9);
  const std::size_t length_at = writer.size();
  writer.u32(0);
  writer.string("body");
  writer.patch_u32(length_at, 0x01020304);
  WireReader reader(writer.view());
  EXPECT_EQ(reader.u8(), 9);
  EXPECT_EQ(reader.u32(), 0x01020304u);
  EXPECT_EQ(reader.string(10), "body");
  EXPECT_TRUE(reader.finish("decode").ok());
}

TEST(WireWriterDeathTest, AbortsOnAPatchOutsideOfWhatWasWritten) {
  WireWriter writer;
  writer.u32(0);
  EXPECT_DEATH(writer.patch_u32(1, 0), "patch_u32");
  EXPECT_DEATH(WireWriter().patch_u32(0, 0), "patch_u32");
}

TEST(WireWriter, IsEmptyAfterTake) {
  WireWriter writer;
  writer.u16(1);
  EXPECT_EQ(writer.take(), to_bytes({1, 0}));
  EXPECT_EQ(writer.size(), 0u);
}

TEST(WireReader, ReadsBackWhatWasWritten) {
  const std::string with_zero("a\0b", 3);
  WireWriter writer;
  writer.u8(0xff);
  writer.u16(0xfffe);
  writer.u32(0xfffffffd);
  writer.u64(0xfffffffffffffffc);
  writer.bytes({"xyz", 3});
  writer.blob({"blob", 4});
  writer.string(with_zero);
  WireReader reader(writer.view());
  EXPECT_EQ(reader.u8(), 0xff);
  EXPECT_EQ(reader.u16(), 0xfffe);
  EXPECT_EQ(reader.u32(), 0xfffffffd);
  EXPECT_EQ(reader.u64(), 0xfffffffffffffffc);
  EXPECT_EQ(reader.position(), 15u);
  const ByteView raw = reader.bytes(3);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(raw.data), raw.size), "xyz");
  const ByteView blob = reader.blob(4);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(blob.data), blob.size), "blob");
  EXPECT_EQ(reader.string(3), with_zero);
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_TRUE(reader.finish("decode").ok());
}

TEST(WireReader, FailsForGoodAtTheFirstMissingByte) {
  const auto input = to_bytes({1, 2, 3});
  WireReader reader(view(input));
  EXPECT_EQ(reader.u32(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0);  // though three bytes are there
  EXPECT_EQ(reader.bytes(1).size, 0u);
  EXPECT_EQ(reader.string(10), "");
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_EQ(reader.position(), 0u);
  EXPECT_EQ(reader.finish("decode", TailBytes::kAllowed).code(), StatusCode::kProtocolError);
}

TEST(WireReader, RefusesALengthOverTheMaximumEvenIfTheBytesAreThere) {
  WireWriter writer;
  writer.string("four");
  WireReader exact(writer.view());
  EXPECT_EQ(exact.string(4), "four");
  WireReader reader(writer.view());
  EXPECT_EQ(reader.string(3), "");
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.finish("decode a name").message(),
            "decode a name: a length of 4 where at most 3 is allowed at byte 0 of 8; check that "
            "the peer is a Farwrite device of a matching version");
}

TEST(WireReader, RefusesALengthOverWhatRemains) {
  const auto input = to_bytes({0xff, 0xff, 0xff, 0xff, 1, 2});
  WireReader reader(view(input));
  EXPECT_EQ(reader.blob(SIZE_MAX).size, 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(WireReader, RefusesACountThatWouldWrapAround) {
  const auto input = to_bytes({1, 2, 3});
  WireReader reader(view(input));
  reader.u8();
  EXPECT_EQ(reader.bytes(SIZE_MAX).size, 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.position(), 1u);
}

TEST(WireReader, RejectsTailBytesUnlessAllowed) {
  const auto input = to_bytes({1, 2});
  WireReader reader(view(input));
  reader.u8();
  const Status status = reader.finish("decode a hello");
  EXPECT_EQ(status.code(), StatusCode::kProtocolError);
  EXPECT_EQ(status.message().find("decode a hello: 1 bytes too many at byte 1 of 2"), 0u);
  EXPECT_TRUE(reader.finish("decode a hello", TailBytes::kAllowed).ok());
}

TEST(WireReader, ReadsAnEmptyInputAsNothing) {
  WireReader reader(ByteView{});
  EXPECT_EQ(reader.bytes(0).size, 0u);
  EXPECT_TRUE(reader.finish("decode").ok());
  EXPECT_EQ(reader.u8(), 0);
  EXPECT_FALSE(reader.ok());
}

// Inputs are heap blocks of their exact size: AddressSanitizer sees any read past the end.
TEST(WireReader, StaysInsideTheInputWhateverTheBytes) {
  std::mt19937 random(20240501);
  for (int round = 0; round < 20000; ++round) {
    const std::size_t size = random() % 40;
    const auto input = std::make_unique<std::byte[]>(size);
    // Mostly small values, so that lengths are often plausible.
    for (std::size_t i = 0; i < size; ++i) {
      input[i] = static_cast<std::byte>(random() % 4 == 0 ? random() % 256 : random() % 3);
    }
    WireReader reader({input.get(), size});
    unsigned sum = 0;
    for (int field = 0; field < 8; ++field) {
      ByteView part;
      switch (random() % 7) {
        case 0:
          reader.u8();
          break;
        case 1:
          reader.u16();
          break;
        case 2:
          reader.u32();
          break;
        case 3:
          reader.u64();
          break;
        case 4:
          part = reader.bytes(random() % 8);
          break;
        case 5:
          part = reader.blob(random() % 16);
          break;
        default:
          sum += static_cast<unsigned>(reader.string(random() % 16).size());
      }
      for (std::size_t i = 0; i < part.size; ++i) sum += std::to_integer<unsigned>(part.data[i]);
      ASSERT_LE(reader.position() + reader.remaining(), size);
      if (part.size > 0) {
        ASSERT_GE(part.data, input.get());
        ASSERT_LE(part.data + part.size, input.get() + size);
      }
    }
    ASSERT_EQ(reader.finish("decode").ok(), reader.ok() && reader.remaining() == 0) << sum;
  }
}

}  // namespace
}  // namespace farwrite::core
