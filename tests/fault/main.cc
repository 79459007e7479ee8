// The tests' own main: the same program is the test and, with a role in its environment, the peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault/role.h"

int main(int argc, char** argv) {
  if (const std::optional<int> status = farwrite::fault::run_role(argc, argv)) return *status;
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
