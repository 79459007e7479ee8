#include "core/tls_stream.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "unit/self_signed.h"
#include "wire_tap.h"

namespace farwrite::core {
namespace {

using State = ByteStream::State;

Deadline later() { return Deadline::after(std::chrono::seconds(30)); }

Digest key_of(std::string_view text) { return tls_key({text.data(), text.size()}, "test"); }

std::array<UniqueFd, 2> connected() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
  return {UniqueFd(pair[0]), UniqueFd(pair[1])};
}

std::string some_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

bool wait_on(const ByteStream& stream, short events) {
  pollfd entry{stream.fd(), events, 0};
  return ::poll(&entry, 1, 30000) > 0;
}

// Offers `bytes` in pieces that are cut anew for every call, until all is taken.
void send_in_pieces(ByteStream& stream, const std::string& bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::size_t done = 0;
  std::size_t offered = 0;
  while (done < bytes.size()) {
    // Never less than was offered before: a caller goes on where it was.
    offered = std::max(offered, std::min(bytes.size(), done + 1 + random() % 200'000));
    std::vector<iovec> pieces;
    for (std::size_t at = done; at < offered;) {
      const std::size_t size = std::min(offered - at, random() % 50'000);
      pieces.push_back({const_cast<char*>(bytes.data()) + at, size});
      at += size;
    }
    const ByteStream::Moved moved = stream.send(pieces.data(), pieces.size());
    done += moved.bytes;
    if (moved.state == State::kMoved) continue;
    ASSERT_EQ(moved.state, State::kWait) << "errno " << moved.error;
    ASSERT_TRUE(wait_on(stream, POLLOUT));
  }
}

struct Taken {
  std::string bytes;
  ByteStream::Moved last;
};
// Receives in pieces of any size until `size` bytes are there or the stream is over.
Taken take(ByteStream& stream, std::size_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  Taken taken;
  while (taken.bytes.size() < size) {
    std::string first(1 + random() % 60'000, '\0');
    std::string second(1 + random() % 100, '\0');
    first.resize(std::min(first.size(), size - taken.bytes.size()));
    second.resize(std::min(second.size(), size - taken.bytes.size() - first.size()));
    const std::array<iovec, 2> pieces = {iovec{first.data(), first.size()},
                                         iovec{second.data(), second.size()}};
    taken.last = stream.receive(pieces.data(), pieces.size());
    taken.bytes += (first + second).substr(0, taken.last.bytes);
    if (taken.last.state == State::kEnded) break;
    if (taken.last.state == State::kWait) {
      EXPECT_FALSE(stream.has_unread()) << "nobody would wait on the descriptor";
      if (!wait_on(stream, POLLIN)) break;
    }
  }
  return taken;
}

class Tls : public testing::Test {
 protected:
  void SetUp() override {
    if (!TlsLibrary::open().ok()) GTEST_SKIP() << TlsLibrary::open().status().message();
  }
  static std::unique_ptr<ByteStream> stream(UniqueFd socket, TlsSide side,
                                            std::string_view key = "key",
                                            std::uint64_t records = TlsStream::kRecordsPerKey) {
    return TlsStream::create(std::move(socket), key_of(key), side, records).value();
  }
  // near_ and far_, with the tap between them.
  void open(std::string_view near_key = "key", std::string_view far_key = "key",
            std::uint64_t records = TlsStream::kRecordsPerKey) {
    auto near = connected();
    auto far = connected();
    tap_.carry(std::move(near[1]), std::move(far[1]));
    near_ = stream(std::move(near[0]), TlsSide::kConnecting, near_key, records);
    far_ = stream(std::move(far[0]), TlsSide::kAccepting, far_key, records);
    auto accepted =
        std::async(std::launch::async, [&] { return far_->establish(later(), "accept"); });
    connecting_ = near_->establish(later(), "connect");
    accepting_ = accepted.get();
  }
  void open_well(std::uint64_t records = TlsStream::kRecordsPerKey) {
    open("key", "key", records);
    ASSERT_TRUE(connecting_.ok()) << connecting_.message();
    ASSERT_TRUE(accepting_.ok()) << accepting_.message();
  }

  WireTap tap_;
  std::unique_ptr<ByteStream> near_, far_;
  Status connecting_, accepting_;
};

using TlsStreamTest = Tls;

TEST_F(TlsStreamTest, BringsBytesBothWaysAtOnceFromTwoThreadsEach) {
  open_well();
  const std::string forth = some_bytes(6'000'000, 1);
  const std::string back = some_bytes(5'000'000, 2);
  auto sends_forth = std::async(std::launch::async, [&] { send_in_pieces(*near_, forth, 3); });
  auto sends_back = std::async(std::launch::async, [&] { send_in_pieces(*far_, back, 4); });
  auto takes_back = std::async(std::launch::async, [&] { return take(*near_, back.size(), 5); });
  EXPECT_TRUE(take(*far_, forth.size(), 6).bytes == forth);
  EXPECT_TRUE(takes_back.get().bytes == back);
}

TEST_F(TlsStreamTest, ChangesItsKeyOnTheWay) {
  open_well(/*records=*/8);
  const std::string bytes = some_bytes(16'384 * 8 * 200, 7);
  auto sends = std::async(std::launch::async, [&] { send_in_pieces(*near_, bytes, 8); });
  EXPECT_TRUE(take(*far_, bytes.size(), 9).bytes == bytes);
  sends.get();
  const std::string answer = some_bytes(100'000, 10);
  auto answers = std::async(std::launch::async, [&] { send_in_pieces(*far_, answer, 11); });
  EXPECT_TRUE(take(*near_, answer.size(), 12).bytes == answer);
}

TEST_F(TlsStreamTest, ShowsNothingOnTheWire) {
  const std::string secret = "the quick brown fox jumps over the lazy dog";
  auto near = connected();
  auto far = connected();
  tap_.carry(std::move(near[1]), std::move(far[1]));
  auto plain = make_plain_stream(std::move(near[0]));
  auto other = make_plain_stream(std::move(far[0]));
  send_in_pieces(*plain, "in the clear", 1);
  EXPECT_EQ(take(*other, 12).bytes, "in the clear");
  EXPECT_TRUE(tap_.saw("in the clear")) << "the tap is deaf";

  open_well();
  send_in_pieces(*near_, secret, 1);
  send_in_pieces(*far_, secret, 1);
  EXPECT_EQ(take(*far_, secret.size()).bytes, secret);
  EXPECT_EQ(take(*near_, secret.size()).bytes, secret);
  EXPECT_FALSE(tap_.saw("quick")) << "the payload passed in the clear";
}

TEST_F(TlsStreamTest, KnowsWhatIsUnreadThoughTheSocketIsSilent) {
  open_well();
  EXPECT_FALSE(far_->has_unread());
  send_in_pieces(*near_, "abcdef", 1);
  EXPECT_EQ(take(*far_, 3).bytes, "abc");
  EXPECT_TRUE(far_->has_unread());
  pollfd silent{far_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&silent, 1, 0), 0);
  EXPECT_EQ(take(*far_, 3).bytes, "def");
  EXPECT_FALSE(far_->has_unread());
}

TEST_F(TlsStreamTest, EndsInGoodOrderBehindTheLastByte) {
  open_well();
  send_in_pieces(*near_, "last words", 1);
  near_.reset();
  const Taken taken = take(*far_, 100);
  EXPECT_EQ(taken.bytes, "last words");
  EXPECT_EQ(taken.last.state, State::kEnded);
  EXPECT_EQ(taken.last.error, 0);
}

TEST_F(TlsStreamTest, TellsAnEndThatThePeerDidNotMake) {
  open_well();
  send_in_pieces(*near_, "not the last", 1);
  EXPECT_EQ(take(*far_, 12).bytes, "not the last");
  tap_.cut();
  const Taken taken = take(*far_, 100);
  EXPECT_EQ(taken.last.state, State::kEnded);
  EXPECT_EQ(taken.last.error, ECONNRESET);
}

// Sends a few records through a wire that does `harm` to what follows the first, and returns what
// came out before the end. The end must be there.
class HarmedTls : public Tls, public testing::WithParamInterface<int> {
 protected:
  void expect_no_wrong_byte(const WireTap::Filter& harm) {
    open_well();
    const std::string bytes = some_bytes(100'000, 21);
    tap_.set_filter(harm);
    auto sends = std::async(std::launch::async, [&] {
      const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
      (void)near_->send(&piece, 1);
    });
    sends.get();
    const Taken taken = take(*far_, bytes.size() + 1);
    EXPECT_EQ(taken.last.state, State::kEnded);
    EXPECT_EQ(taken.last.error, EBADMSG);
    EXPECT_LT(taken.bytes.size(), bytes.size());
    EXPECT_TRUE(bytes.compare(0, taken.bytes.size(), taken.bytes) == 0) << "wrong bytes came out";
    char byte = 0;
    const iovec piece{&byte, 1};
    EXPECT_EQ(far_->receive(&piece, 1).state, State::kEnded) << "the end is for good";
  }
};

// At the record's type, version, length, in the text, and in its seal.
TEST_P(HarmedTls, OneBitChangedOnTheWayEndsTheStream) {
  expect_no_wrong_byte([done = false](bool forth, std::string& bytes) mutable {
    if (!forth || std::exchange(done, true)) return;
    const std::size_t at = GetParam() < 0 ? bytes.size() - 1 : static_cast<std::size_t>(GetParam());
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
  });
}
INSTANTIATE_TEST_SUITE_P(Bytes, HarmedTls, testing::Values(0, 3, 4, 5, 700, 16'000, 16'400));

TEST_F(HarmedTls, ARecordReplayedEndsTheStream) {
  expect_no_wrong_byte([done = false](bool forth, std::string& bytes) mutable {
    if (!forth || std::exchange(done, true)) return;
    constexpr std::size_t kRecord = 5 + 16384 + 1 + 16;
    bytes.insert(0, bytes.substr(0, kRecord));
  });
}

TEST_F(HarmedTls, ARecordLeftOutEndsTheStream) {
  expect_no_wrong_byte([done = false](bool forth, std::string& bytes) mutable {
    if (!forth || std::exchange(done, true)) return;
    constexpr std::size_t kRecord = 5 + 16384 + 1 + 16;
    bytes.erase(0, kRecord);
  });
}

TEST_F(TlsStreamTest, AnotherKeyIsRefusedOnBothSides) {
  open("key", "another key");
  EXPECT_EQ(connecting_.code(), StatusCode::kUnauthenticated) << connecting_.message();
  EXPECT_EQ(accepting_.code(), StatusCode::kUnauthenticated) << accepting_.message();
}

// Who is on the way, has no key, and so answers as any server of the Web does.
TEST_F(TlsStreamTest, ACertificateInsteadOfTheKeyIsRefused) {
  void* const library = ::dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  const auto use_certificate = reinterpret_cast<int (*)(ssl_st*, const unsigned char*, int)>(
      ::dlsym(library, "SSL_use_certificate_ASN1"));
  const auto use_key = reinterpret_cast<int (*)(int, ssl_st*, const unsigned char*, long)>(
      ::dlsym(library, "SSL_use_PrivateKey_ASN1"));
  const auto set_fd = reinterpret_cast<int (*)(ssl_st*, int)>(::dlsym(library, "SSL_set_fd"));
  const auto free_context =
      reinterpret_cast<void (*)(ssl_ctx_st*)>(::dlsym(library, "SSL_CTX_free"));
  ASSERT_TRUE(use_certificate != nullptr && use_key != nullptr && set_fd != nullptr &&
              free_context != nullptr);
  const TlsLibrary& tls = **TlsLibrary::open();
  auto sockets = connected();
  std::thread impostor([&, socket = std::move(sockets[1])] {
    constexpr int kEc = 408;
    ssl_ctx_st* const context = tls.SSL_CTX_new(tls.TLS_method());
    ssl_st* const ssl = tls.SSL_new(context);
    free_context(context);  // the connection shares it
    EXPECT_EQ(use_certificate(ssl, kSelfSigned, sizeof(kSelfSigned)), 1);
    EXPECT_EQ(use_key(kEc, ssl, kSelfSignedKey, sizeof(kSelfSignedKey)), 1);
    set_fd(ssl, socket.get());
    tls.SSL_set_accept_state(ssl);
    pollfd entry{socket.get(), POLLIN, 0};
    for (int result = 0; (result = tls.SSL_do_handshake(ssl)) != 1;) {
      if (tls.SSL_get_error(ssl, result) != TlsLibrary::kErrorWantRead) break;
      ::poll(&entry, 1, 30000);
    }
    tls.SSL_free(ssl);
    tls.ERR_clear_error();
  });
  near_ = stream(std::move(sockets[0]), TlsSide::kConnecting);
  const Status status = near_->establish(later(), "connect");
  near_.reset();
  impostor.join();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.message();
  EXPECT_NE(status.message().find("certificate"), std::string::npos) << status.message();
}

TEST_F(TlsStreamTest, APeerThatDoesNotEncryptIsToldApart) {
  for (const TlsSide side : {TlsSide::kConnecting, TlsSide::kAccepting}) {
    auto sockets = connected();
    near_ = stream(std::move(sockets[0]), side);
    const std::string text = "GET / HTTP/1.1\r\n";
    ASSERT_TRUE(send_all(sockets[1].get(), {text.data(), text.size()}, later(), "test").ok());
    const Status status = near_->establish(later(), "connect");
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.message();
    EXPECT_NE(status.message().find("encrypt on both"), std::string::npos) << status.message();
  }
}

TEST_F(TlsStreamTest, NoiseThatLooksLikeARecordIsRefused) {
  std::mt19937 random(31);
  for (int round = 0; round < 200; ++round) {
    const TlsSide side = round % 2 == 0 ? TlsSide::kConnecting : TlsSide::kAccepting;
    auto sockets = connected();
    near_ = stream(std::move(sockets[0]), side);
    std::string noise = some_bytes(6 + random() % 400, random());
    noise[0] = round % 3 == 0 ? 21 : 22;
    noise[1] = 3;
    if (round % 5 != 0) noise[3] = 0;
    ASSERT_TRUE(send_all(sockets[1].get(), {noise.data(), noise.size()}, later(), "test").ok());
    ASSERT_EQ(::shutdown(sockets[1].get(), SHUT_WR), 0);
    EXPECT_FALSE(near_->establish(later(), "connect").ok());
  }
}

TEST_F(TlsStreamTest, WaitsForASilentPeerNoLongerThanAllowed) {
  auto sockets = connected();
  near_ = stream(std::move(sockets[0]), TlsSide::kConnecting);
  const Deadline soon = Deadline::after(std::chrono::milliseconds(30));
  EXPECT_EQ(near_->establish(soon, "connect").code(), StatusCode::kDeadlineExceeded);
}

TEST_F(TlsStreamTest, SaysThatThePeerHungUp) {
  auto sockets = connected();
  near_ = stream(std::move(sockets[0]), TlsSide::kConnecting);
  ASSERT_EQ(::shutdown(sockets[1].get(), SHUT_WR), 0);
  EXPECT_EQ(near_->establish(later(), "connect").code(), StatusCode::kUnavailable);
}

TEST_F(TlsStreamTest, SendingToAPeerThatIsGoneIsAnErrorAndNoSignal) {
  open_well();
  far_.reset();
  tap_.cut();
  const std::string bytes(1'000'000, 'x');
  const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  ByteStream::Moved moved;
  do {
    moved = near_->send(&piece, 1);
  } while (moved.state == State::kMoved);
  EXPECT_EQ(moved.state, State::kEnded);
  EXPECT_EQ(moved.error, EPIPE);
}

TEST(TlsLibrary, SaysWhatIsMissingAndWhatToInstall) {
  const Status file = TlsLibrary::load("libssl-that-is-nowhere.so.3").status();
  EXPECT_EQ(file.code(), StatusCode::kUnavailable);
  EXPECT_NE(file.message().find("libssl-that-is-nowhere.so.3"), std::string::npos);
  EXPECT_NE(file.message().find("package libssl3"), std::string::npos) << file.message();
  const Status function = TlsLibrary::load("libc.so.6").status();
  EXPECT_EQ(function.code(), StatusCode::kUnavailable);
  EXPECT_NE(function.message().find("OPENSSL_init_crypto"), std::string::npos);
}

}  // namespace
}  // namespace farwrite::core
