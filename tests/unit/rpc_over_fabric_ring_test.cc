// The two ends of rpc-over-fabric's ring: what is written, what is read, and whose numbers count.
#include <gmock/gmock.h>

#include <string>

#include "experiments/tensorflow/piece_queue.h"
#include "experiments/tensorflow/ring_reader.h"

namespace farwrite::experiments {
namespace {

using testing::HasSubstr;

constexpr std::size_t kBytes = 64;

std::string text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

Piece piece_of(const std::string& text) {
  const auto owner = std::make_shared<const std::string>(text);
  return {ByteView(owner->data(), owner->size()), owner};
}

class RpcRing : public testing::Test {
 protected:
  // As the fabric would: into the ring, and then the notification.
  void carry_all() {
    RingWrite write;
    while (queue_.next(write)) {
      ASSERT_LE(write.offset + write.bytes(), kBytes);
      const std::string bytes =
          text_of({write.head.data(), static_cast<std::size_t>(write.head_bytes)}) +
          text_of(write.source.bytes);
      memory_.replace(static_cast<std::size_t>(write.offset), bytes.size(), bytes);
      ASSERT_TRUE(reader_.add(write.bytes()).ok());
    }
  }

  std::string take(std::uint64_t most) {
    const ByteView next = reader_.peek(most);
    std::string text = text_of(next);
    const std::uint64_t room = reader_.consume(next.size);
    EXPECT_TRUE(queue_.add_credit(room).ok());
    return text;
  }

  std::string memory_ = std::string(kBytes, '-');
  RingReader reader_{ByteView(memory_.data(), memory_.size()), "ps"};
  PieceQueue queue_{kBytes, "worker"};
};

TEST_F(RpcRing, CarriesMoreThanItHoldsInOrder) {
  std::string sent;
  for (int number = 0; number < 40; ++number) {
    const std::string text(static_cast<std::size_t>(number), static_cast<char>('a' + number % 26));
    sent += text;
    queue_.add(piece_of(text));
  }
  std::string came;
  while (came.size() < sent.size()) {
    carry_all();
    const std::string next = take(11);
    ASSERT_FALSE(next.empty());
    came += next;
  }
  EXPECT_EQ(came, sent);
}

TEST_F(RpcRing, WritesNoMoreThanThereIsRoomFor) {
  queue_.add(piece_of(std::string(kBytes + 1, 'a')));
  carry_all();
  EXPECT_EQ(reader_.available(), kBytes);
  RingWrite write;
  EXPECT_FALSE(queue_.next(write)) << "until the reader gives room back";
}

TEST_F(RpcRing, RefusesBytesThatItHasNoRoomFor) {
  ASSERT_TRUE(reader_.add(kBytes - 1).ok());
  const Status refused = reader_.add(2);
  EXPECT_EQ(refused.code(), StatusCode::kProtocolError);
  EXPECT_THAT(refused.message(), HasSubstr("from ps: the peer wrote 2 bytes into a ring of 64"));
  EXPECT_EQ(reader_.add(UINT64_MAX).code(), StatusCode::kProtocolError);
  EXPECT_EQ(reader_.available(), kBytes - 1) << "what was refused is not counted";
  EXPECT_EQ(reader_.peek(1000).size, kBytes - 1);
}

TEST_F(RpcRing, RefusesCreditForBytesThatWereNotInIt) {
  EXPECT_EQ(queue_.add_credit(1).code(), StatusCode::kProtocolError);
  queue_.add(piece_of("abc"));
  carry_all();
  const Status refused = queue_.add_credit(4);
  EXPECT_EQ(refused.code(), StatusCode::kProtocolError);
  EXPECT_THAT(refused.message(), HasSubstr("to worker: the peer took 4 bytes out, and 3 were"));
  EXPECT_TRUE(queue_.add_credit(3).ok());
}

TEST_F(RpcRing, GivesRoomBackInParts) {
  queue_.add(piece_of(std::string(20, 'a')));
  carry_all();
  EXPECT_EQ(reader_.consume(7), 0U);
  EXPECT_EQ(reader_.consume(1), 8U) << "an eighth of the ring";
  EXPECT_EQ(reader_.consume(12), 12U);
}

TEST_F(RpcRing, ShowsNothingWhereThereIsNothing) { EXPECT_EQ(reader_.peek(1).size, 0U); }

}  // namespace
}  // namespace farwrite::experiments
