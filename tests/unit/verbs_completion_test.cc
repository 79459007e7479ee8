#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "fabric/verbs/async_events.h"
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/real_library.h"

namespace farwrite::fabric::verbs {
namespace {

using ::testing::HasSubstr;

constexpr int kStatuses = IBV_WC_TM_RNDV_INCOMPLETE + 1;
constexpr int kEvents = IBV_EVENT_WQ_FATAL + 1;

Status explained(ibv_wc_status status) {
  Functions functions;
  functions.ibv_wc_status_str = [](ibv_wc_status) { return "the library's words"; };
  RealLibrary library(functions);
  ibv_wc completion{};
  completion.status = status;
  completion.vendor_err = 0x81;
  return status_of(library, completion, "write", {"10.9.0.2:7777", "mlx5_0", 3});
}

TEST(VerbsCompletionTest, SuccessIsOk) {
  EXPECT_TRUE(explained(IBV_WC_SUCCESS).ok());
  EXPECT_FALSE(means_peer_gone(IBV_WC_SUCCESS));
}

TEST(VerbsCompletionTest, EveryErrorNamesOperationPeerDeviceVendorErrorAndRemedy) {
  for (int status = IBV_WC_SUCCESS + 1; status < kStatuses; ++status) {
    SCOPED_TRACE(status);
    const Status explanation = explained(static_cast<ibv_wc_status>(status));
    EXPECT_FALSE(explanation.ok());
    EXPECT_THAT(explanation.message(), HasSubstr("write to 10.9.0.2:7777 over verbs: "));
    EXPECT_THAT(explanation.message(),
                HasSubstr("(the library's words, status " + std::to_string(status) +
                          ", vendor error 0x81, on mlx5_0, lane 3); "));  // and a remedy behind it
    EXPECT_EQ(explanation.message().find("unknown to this version"), std::string::npos);
  }
}

TEST(VerbsCompletionTest, ANewerLibrarysErrorIsAnErrorToo) {
  const Status explanation = explained(static_cast<ibv_wc_status>(kStatuses + 5));
  EXPECT_EQ(explanation.code(), StatusCode::kInternal);
  EXPECT_THAT(explanation.message(), HasSubstr("unknown to this version"));
}

TEST(VerbsCompletionTest, CodesTellWhatAProgramCanDo) {
  EXPECT_EQ(explained(IBV_WC_RETRY_EXC_ERR).code(), StatusCode::kPeerDead);
  EXPECT_EQ(explained(IBV_WC_WR_FLUSH_ERR).code(), StatusCode::kPeerDead);
  EXPECT_EQ(explained(IBV_WC_REM_ACCESS_ERR).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(explained(IBV_WC_LOC_PROT_ERR).code(), StatusCode::kInternal);
  EXPECT_EQ(explained(IBV_WC_RNR_RETRY_EXC_ERR).code(), StatusCode::kInternal);
  EXPECT_EQ(explained(IBV_WC_LOC_LEN_ERR).code(), StatusCode::kProtocolError);
  EXPECT_EQ(explained(IBV_WC_FATAL_ERR).code(), StatusCode::kUnavailable);
}

TEST(VerbsCompletionTest, RemediesAreForWhoeverIsCalledAtNight) {
  EXPECT_THAT(explained(IBV_WC_RETRY_EXC_ERR).message(), HasSubstr("UDP port 4791"));
  EXPECT_THAT(explained(IBV_WC_RETRY_EXC_ERR).message(), HasSubstr("`rdma link`"));
  EXPECT_THAT(explained(IBV_WC_WR_FLUSH_ERR).message(), HasSubstr("first error"));
  EXPECT_THAT(explained(IBV_WC_RNR_RETRY_EXC_ERR).message(), HasSubstr("rnr_retry_count"));
}

TEST(VerbsCompletionTest, OnlyADeadPeersErrorsMeanThatItIsGone) {
  std::set<int> gone;
  for (int status = 0; status < kStatuses; ++status) {
    if (means_peer_gone(static_cast<ibv_wc_status>(status))) gone.insert(status);
  }
  EXPECT_EQ(gone, (std::set<int>{IBV_WC_WR_FLUSH_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_RESP_TIMEOUT_ERR,
                                 IBV_WC_REM_ABORT_ERR}));
}

TEST(VerbsCompletionTest, EveryEventHasItsOwnWords) {
  std::set<std::string> texts;
  ibv_qp pair{};
  pair.qp_num = 17;
  std::set<int> fatal_ones;
  for (int type = 0; type < kEvents; ++type) {
    ibv_async_event event{};
    event.event_type = static_cast<ibv_event_type>(type);
    const bool of_pair = type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_ACCESS_ERR;
    if (of_pair) event.element.qp = &pair;
    if (type == IBV_EVENT_PORT_ERR) event.element.port_num = 2;
    bool fatal = false;
    const std::string text = describe_event(event, "mlx5_0", &fatal);
    if (fatal) fatal_ones.insert(type);
    texts.insert(text);
    EXPECT_THAT(text, HasSubstr("(IBV_EVENT_"));
    if (of_pair) {
      EXPECT_THAT(text, HasSubstr("mlx5_0 queue pair 17: "));
    }
    if (type == IBV_EVENT_PORT_ERR) {
      EXPECT_THAT(text, HasSubstr("mlx5_0 port 2: the link is down"));
    }
  }
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(kEvents));
  EXPECT_EQ(fatal_ones, (std::set<int>{IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL}));
}

TEST(VerbsCompletionTest, AnEventOfANewerLibraryIsNamedByItsNumber) {
  ibv_async_event event{};
  event.event_type = static_cast<ibv_event_type>(31);
  bool fatal = true;
  EXPECT_THAT(describe_event(event, "rxe0", &fatal), HasSubstr("(event 31)"));
  EXPECT_FALSE(fatal);
}

}  // namespace
}  // namespace farwrite::fabric::verbs
