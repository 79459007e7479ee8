#include "core/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace farwrite::core {
namespace {

// The exit status of a forked child that runs `body`: 0 if it returned true.
int run_in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(ForkGuard, IsOkInTheProcessThatMadeIt) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.in_forked_child());
  EXPECT_TRUE(guard.check("write").ok());
}

TEST(ForkGuard, ReportsForkedInTheChild) {
  const ForkGuard guard;
  EXPECT_EQ(run_in_child([&] {
              const Status status = guard.check("write");
              return guard.in_forked_child() && status.code() == StatusCode::kForked &&
                     status.message().rfind("write: ", 0) == 0 &&
                     status.message().find(
                         "open a device after the fork, or use the spawn start "
                         "method") != std::string::npos;
            }),
            0);
}

TEST(ForkGuard, StaysOkInTheParentAfterAFork) {
  const ForkGuard guard;
  const std::uint64_t generation = process_generation();
  EXPECT_EQ(run_in_child([] { return true; }), 0);
  EXPECT_FALSE(guard.in_forked_child());
  EXPECT_EQ(process_generation(), generation);
}

TEST(ForkGuard, IsOkWhenMadeInTheChildItself) {
  EXPECT_EQ(run_in_child([] { return ForkGuard().check("write").ok(); }), 0);
}

TEST(ForkGuard, CountsEveryGeneration) {
  const std::uint64_t generation = process_generation();
  EXPECT_EQ(run_in_child([&] {
              const ForkGuard of_the_child;
              const int grandchild = run_in_child([&] {
                return of_the_child.in_forked_child() && process_generation() == generation + 2;
              });
              return grandchild == 0 && process_generation() == generation + 1;
            }),
            0);
}

}  // namespace
}  // namespace farwrite::core
