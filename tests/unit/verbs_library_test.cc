#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "fabric/verbs/real_library.h"

namespace farwrite::fabric::verbs {
namespace {

using ::testing::HasSubstr;

TEST(VerbsLibraryTest, NamesTheFileThatIsMissing) {
  const auto functions = Functions::load("libno_such_verbs.so.1", "librdmacm.so.1");
  ASSERT_FALSE(functions.ok());
  EXPECT_EQ(functions.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(functions.status().message(), HasSubstr("libno_such_verbs.so.1 cannot be opened"));
  EXPECT_THAT(functions.status().message(), HasSubstr("librdmacm1"));  // what to install
}

TEST(VerbsLibraryTest, NamesTheFirstFunctionThatIsMissing) {
  const auto functions = Functions::load("libm.so.6", "librdmacm.so.1");
  ASSERT_FALSE(functions.ok());
  EXPECT_THAT(functions.status().message(), HasSubstr("libm.so.6 has no ibv_get_device_name"));
}

TEST(VerbsLibraryTest, OpensOnceAndForAll) {
  const auto first = VerbsLibrary::open();
  const auto second = VerbsLibrary::open();
  ASSERT_EQ(first.ok(), second.ok());
  if (first.ok()) {
    EXPECT_EQ(first.value(), second.value());
  } else {
    EXPECT_EQ(first.status().message(), second.status().message());
  }
}

TEST(VerbsLibraryTest, HostAddressesAreNoLoopback) {
  for (const sockaddr_storage& address : host_addresses()) {
    if (address.ss_family == AF_INET) {
      const auto& four = reinterpret_cast<const sockaddr_in&>(address);
      EXPECT_NE(ntohl(four.sin_addr.s_addr) >> 24, 127U);
    } else {
      ASSERT_EQ(address.ss_family, AF_INET6);
      const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
      EXPECT_FALSE(IN6_IS_ADDR_LOOPBACK(&six.sin6_addr));
      if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) {
        EXPECT_NE(six.sin6_scope_id, 0U);
      }
    }
  }
}

// Functions that fail in every way the libraries know.
struct Fake {
  static inline unsigned access = 0;  // of the last registration
  static inline bool optional_bits_passed = false;

  static ibv_mr* reg_mr(ibv_pd*, void*, std::size_t, int bits) {
    access = static_cast<unsigned>(bits);
    optional_bits_passed = false;
    return nullptr;
  }
  static ibv_mr* reg_mr_iova2(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned bits) {
    access = bits;
    optional_bits_passed = true;
    return nullptr;
  }
};

TEST(VerbsLibraryTest, HidesRegisteredMemoryFromChildrenWhereTheKernelNeedsThat) {
  Functions functions;
  EXPECT_FALSE(RealLibrary(functions).hides_from_children());
  functions.ibv_fork_init = [] { return 0; };
  EXPECT_TRUE(RealLibrary(functions).hides_from_children());  // rdma-core before 35
  functions.ibv_is_fork_initialized = [] { return IBV_FORK_ENABLED; };
  EXPECT_TRUE(RealLibrary(functions).hides_from_children());
  functions.ibv_is_fork_initialized = [] { return IBV_FORK_UNNEEDED; };
  EXPECT_FALSE(RealLibrary(functions).hides_from_children());
}

TEST(VerbsLibraryTest, EveryErrorIsAnErrnoValue) {
  Functions functions;
  functions.ibv_dealloc_pd = [](ibv_pd*) { return EBUSY; };
  functions.ibv_destroy_cq = [](ibv_cq*) { return -ENOMEM; };
  functions.rdma_listen = [](rdma_cm_id*, int) {
    errno = EADDRINUSE;
    return -1;
  };
  functions.rdma_disconnect = [](rdma_cm_id*) {
    errno = 0;
    return -1;
  };
  functions.rdma_destroy_id = [](rdma_cm_id*) { return 0; };
  RealLibrary library(functions);
  EXPECT_EQ(library.dealloc_pd(nullptr), EBUSY);
  EXPECT_EQ(library.destroy_cq(nullptr), ENOMEM);
  EXPECT_EQ(library.listen(nullptr, 1), EADDRINUSE);
  EXPECT_EQ(library.disconnect(nullptr), EIO);
  EXPECT_EQ(library.destroy_id(nullptr), 0);
}

TEST(VerbsLibraryTest, OptionalAccessBitsNeedTheFunctionThatMayDropThem) {
  Functions functions;
  functions.ibv_reg_mr = Fake::reg_mr;
  functions.ibv_reg_mr_iova2 = Fake::reg_mr_iova2;
  std::array<char, 8> memory{};
  const unsigned plain = IBV_ACCESS_LOCAL_WRITE;
  const unsigned relaxed = plain | IBV_ACCESS_RELAXED_ORDERING;

  RealLibrary library(functions);
  (void)library.reg_mr(nullptr, memory.data(), memory.size(), relaxed);
  EXPECT_TRUE(Fake::optional_bits_passed);
  EXPECT_EQ(Fake::access, relaxed);
  (void)library.reg_mr(nullptr, memory.data(), memory.size(), plain);
  EXPECT_FALSE(Fake::optional_bits_passed);  // the older function does
  EXPECT_EQ(Fake::access, plain);

  functions.ibv_reg_mr_iova2 = nullptr;
  RealLibrary old(functions);
  (void)old.reg_mr(nullptr, memory.data(), memory.size(), relaxed);
  EXPECT_EQ(Fake::access, plain);
}

TEST(VerbsLibraryTest, NobodyPromisesOrderWithoutTheFunctionToAsk) {
  Functions functions;
  RealLibrary old(functions);
  EXPECT_FALSE(old.data_in_order(nullptr, IBV_WR_RDMA_WRITE));
  functions.ibv_query_qp_data_in_order = [](ibv_qp*, ibv_wr_opcode opcode, std::uint32_t) {
    return opcode == IBV_WR_RDMA_WRITE ? 1 : 0;
  };
  RealLibrary library(functions);
  EXPECT_TRUE(library.data_in_order(nullptr, IBV_WR_RDMA_WRITE));
  EXPECT_FALSE(library.data_in_order(nullptr, IBV_WR_RDMA_WRITE_WITH_IMM));
}

TEST(VerbsLibraryTest, CompletionQueuesTakeCompletionVectorsInTurn) {
  static std::vector<int> vectors;
  vectors.clear();
  Functions functions;
  functions.ibv_create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int vector) -> ibv_cq* {
    vectors.push_back(vector);
    return nullptr;
  };
  RealLibrary library(functions);
  ibv_context context{};
  context.num_comp_vectors = 2;
  for (int i = 0; i < 3; ++i) (void)library.create_cq(&context, 16, nullptr);
  EXPECT_EQ(vectors, (std::vector<int>{0, 1, 0}));
  context.num_comp_vectors = 0;  // as a driver without interrupts says
  (void)library.create_cq(&context, 16, nullptr);
  EXPECT_EQ(vectors.back(), 0);
}

}  // namespace
}  // namespace farwrite::fabric::verbs
