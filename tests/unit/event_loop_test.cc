#include "core/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/unique_fd.h"

namespace farwrite::core {
namespace {

using std::chrono::milliseconds;

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  void fill() const { EXPECT_EQ(::write(writer.get(), "x", 1), 1); }
  void drain() const {
    char byte;
    EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
  }
  UniqueFd reader;
  UniqueFd writer;
};

std::unique_ptr<EventLoop> start_loop() { return *EventLoop::start("test loop"); }

// Returns when the loop has run `function`.
template <typename Function>
auto run_on(EventLoop& loop, Function function) {
  std::packaged_task<decltype(function())()> task(std::move(function));
  auto result = task.get_future();
  loop.post([&task] { task(); });
  return result.get();
}

// Returns when the loop has gone through everything that was ready before: posted functions run
// ahead of the events of their turn, so the second one is a turn later.
void let_it_turn(EventLoop& loop) {
  for (int i = 0; i < 3; ++i) run_on(loop, [] {});
}

TEST(EventLoop, RunsPostedFunctionsInOrderOnItsOwnThread) {
  const auto loop = start_loop();
  EXPECT_FALSE(loop->on_loop_thread());
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) loop->post([&order, i] { order.push_back(i); });
  EXPECT_TRUE(run_on(*loop, [&] { return loop->on_loop_thread(); }));
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(EventLoop, IsNotTheLoopThreadOfAnotherLoop) {
  const auto loop = start_loop();
  const auto other = start_loop();
  EXPECT_FALSE(run_on(*loop, [&] { return other->on_loop_thread(); }));
}

TEST(EventLoop, NamesItsThreadAndLeavesSignalsToTheApplication) {
  const auto loop = *EventLoop::start("a name longer than Linux keeps");
  const auto [name, interrupt_blocked, fault_blocked] = run_on(*loop, [] {
    std::array<char, 16> text{};
    ::pthread_getname_np(::pthread_self(), text.data(), text.size());
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    return std::make_tuple(std::string(text.data()), ::sigismember(&blocked, SIGINT),
                           ::sigismember(&blocked, SIGSEGV));
  });
  EXPECT_EQ(name, "a name longer t");
  EXPECT_EQ(interrupt_blocked, 1);
  EXPECT_EQ(fault_blocked, 0);
}

TEST(EventLoop, RunsWhatWasPostedBeforeItIsDestroyed) {
  int ran = 0;
  auto loop = start_loop();
  for (int i = 0; i < 100; ++i) loop->post([&ran] { ++ran; });
  loop.reset();
  EXPECT_EQ(ran, 100);
}

// Posts when it is destroyed: with the loop's mutex held, that would be a deadlock.
struct PostsWhenDestroyed {
  explicit PostsWhenDestroyed(EventLoop& target) : loop(target) {}
  ~PostsWhenDestroyed() {
    loop.post([token = std::move(token)] { ADD_FAILURE() << "ran after the stop"; });
  }
  EventLoop& loop;
  std::shared_ptr<int> token = std::make_shared<int>(0);
};

TEST(EventLoop, DropsPostsOnceItIsStoppingAndDestroysThemOutsideItsLock) {
  Pipe pipe;
  auto loop = start_loop();
  auto inner = std::make_shared<PostsWhenDestroyed>(*loop);
  const std::weak_ptr<int> token = inner->token;
  ASSERT_TRUE(loop->add_fd(pipe.reader.get(), EPOLLIN, [inner](std::uint32_t) {}).ok());
  inner.reset();
  EXPECT_FALSE(token.expired());
  loop.reset();
  EXPECT_TRUE(token.expired());
}

TEST(EventLoop, CallsBackWithTheEventsThatAreReady) {
  Pipe pipe;
  const auto loop = start_loop();
  std::promise<std::uint32_t> readable;
  ASSERT_TRUE(loop->add_fd(pipe.reader.get(), EPOLLIN,
                           [&](std::uint32_t events) {
                             EXPECT_TRUE(loop->on_loop_thread());
                             pipe.drain();
                             readable.set_value(events);
                           })
                  .ok());
  pipe.fill();
  EXPECT_EQ(readable.get_future().get(), static_cast<std::uint32_t>(EPOLLIN));
}

TEST(EventLoop, ReportsAHangUpUnasked) {
  Pipe pipe;
  const auto loop = start_loop();
  std::promise<std::uint32_t> hung_up;
  ASSERT_TRUE(loop->add_fd(pipe.reader.get(), 0,
                           [&](std::uint32_t events) {
                             loop->remove_fd(pipe.reader.get());
                             hung_up.set_value(events);
                           })
                  .ok());
  pipe.writer.reset();
  EXPECT_EQ(hung_up.get_future().get(), static_cast<std::uint32_t>(EPOLLHUP));
}

TEST(EventLoop, FollowsAChangeOfEvents) {
  Pipe pipe;
  const auto loop = start_loop();
  int calls = 0;
  ASSERT_TRUE(loop->add_fd(pipe.reader.get(), 0,
                           [&](std::uint32_t) {
                             pipe.drain();
                             ++calls;
                           })
                  .ok());
  pipe.fill();
  let_it_turn(*loop);
  EXPECT_EQ(run_on(*loop, [&] { return calls; }), 0);
  ASSERT_TRUE(loop->modify_fd(pipe.reader.get(), EPOLLIN).ok());
  let_it_turn(*loop);
  EXPECT_EQ(run_on(*loop, [&] { return calls; }), 1);
}

TEST(EventLoop, RefusesWhatItCannotWatch) {
  Pipe pipe;
  const auto loop = start_loop();
  const int fd = pipe.reader.get();
  EXPECT_EQ(loop->modify_fd(fd, EPOLLIN).code(), StatusCode::kNotFound);
  ASSERT_TRUE(loop->add_fd(fd, EPOLLIN, [](std::uint32_t) {}).ok());
  const Status twice = loop->add_fd(fd, EPOLLIN, [](std::uint32_t) {});
  EXPECT_EQ(twice.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(twice.message(),
            "watch descriptor " + std::to_string(fd) +
                ": the loop already watches it; remove it before it is closed or added "
                "again");
  EXPECT_EQ(loop->add_fd(-1, EPOLLIN, [](std::uint32_t) {}).code(), StatusCode::kInvalidArgument);
  loop->remove_fd(fd);
  loop->remove_fd(fd);
  loop->remove_fd(-1);
  EXPECT_TRUE(loop->add_fd(fd, EPOLLIN, [](std::uint32_t) {}).ok());
}

// The pipe stays readable, so the callback runs again whenever the remover comes late.
TEST(EventLoop, RemoveWaitsForARunningCallbackAndDestroysIt) {
  for (int round = 0; round < 20; ++round) {
    Pipe pipe;
    const auto loop = start_loop();
    std::promise<void> entered;
    std::promise<void> go_on;
    std::shared_future<void> may_go_on = go_on.get_future().share();
    int begun = 0;  // not atomic: TSan proves that remove_fd orders the two threads
    int finished = 0;
    auto token = std::make_shared<int>(0);
    const std::weak_ptr<int> alive = token;
    ASSERT_TRUE(loop->add_fd(pipe.reader.get(), EPOLLIN,
                             [&entered, &begun, &finished, may_go_on, token](std::uint32_t) {
                               if (++begun == 1) entered.set_value();
                               may_go_on.wait();
                               for (int i = 0; i < 10; ++i) std::this_thread::yield();
                               ++finished;
                             })
                    .ok());
    token.reset();
    pipe.fill();
    entered.get_future().wait();
    int calls = 0;
    std::thread remover([&] {
      go_on.set_value();
      loop->remove_fd(pipe.reader.get());
      calls = begun;
      EXPECT_GE(finished, 1);
      EXPECT_EQ(finished, calls);
      EXPECT_TRUE(alive.expired());
    });
    remover.join();
    let_it_turn(*loop);
    EXPECT_EQ(begun, calls);
  }
}

TEST(EventLoop, ACallbackMayRemoveItselfAndLivesUntilItReturns) {
  Pipe pipe;
  const auto loop = start_loop();
  auto token = std::make_shared<int>(41);
  const std::weak_ptr<int> alive = token;
  std::promise<int> seen;
  ASSERT_TRUE(loop->add_fd(pipe.reader.get(), EPOLLIN,
                           [&, token](std::uint32_t) {
                             loop->remove_fd(pipe.reader.get());
                             seen.set_value(++*token);
                           })
                  .ok());
  token.reset();
  pipe.fill();
  EXPECT_EQ(seen.get_future().get(), 42);
  let_it_turn(*loop);
  EXPECT_TRUE(alive.expired());
}

// Both pipes are ready in one batch. Whichever callback runs first removes the other, and puts a
// quiet pipe under the same descriptor number: the event queued for the old one must be dropped.
TEST(EventLoop, AnEventOfAnOldRegistrationNeverReachesANewOneOfTheSameNumber) {
  std::array<Pipe, 2> pipes;
  Pipe quiet;
  const auto loop = start_loop();
  int old_calls = 0;
  int new_calls = 0;
  std::promise<void> go_on;
  loop->post([released = go_on.get_future().share()] { released.wait(); });
  for (std::size_t i = 0; i < 2; ++i) {
    const int mine = pipes[i].reader.get();
    const int other = pipes[1 - i].reader.get();
    ASSERT_TRUE(loop->add_fd(mine, EPOLLIN,
                             [&, mine, other](std::uint32_t) {
                               ++old_calls;
                               loop->remove_fd(mine);
                               loop->remove_fd(other);
                               ASSERT_EQ(::dup2(quiet.reader.get(), other), other);
                               ASSERT_TRUE(loop->add_fd(other, EPOLLIN,
                                                        [&](std::uint32_t) {
                                                          ++new_calls;
                                                          quiet.drain();
                                                        })
                                               .ok());
                             })
                    .ok());
    pipes[i].fill();
  }
  go_on.set_value();
  let_it_turn(*loop);
  EXPECT_EQ(run_on(*loop, [&] { return std::make_pair(old_calls, new_calls); }),
            std::make_pair(1, 0));
  quiet.fill();
  let_it_turn(*loop);
  EXPECT_EQ(run_on(*loop, [&] { return new_calls; }), 1);
}

// A wake-up that is drained in the very turn that posts again must not be lost.
TEST(EventLoop, LosesNoPostWhateverItIsDoing) {
  Pipe pipe;
  const auto loop = start_loop();
  constexpr int kRounds = 2000;
  int from_callback = 0;
  int from_thread = 0;
  std::promise<void> all_ran;
  ASSERT_TRUE(loop->add_fd(pipe.reader.get(), EPOLLIN,
                           [&](std::uint32_t) {
                             pipe.drain();
                             loop->post([&] {
                               if (++from_callback == kRounds) return all_ran.set_value();
                               pipe.fill();
                             });
                           })
                  .ok());
  std::thread poster([&] {
    for (int i = 0; i < kRounds; ++i) loop->post([&] { ++from_thread; });
  });
  pipe.fill();
  all_ran.get_future().wait();
  poster.join();
  EXPECT_EQ(run_on(*loop, [&] { return from_thread; }), kRounds);
}

TEST(EventLoop, RunsATimerAgainAndAgainUntilItIsCancelled) {
  const auto loop = start_loop();
  int calls = 0;
  std::promise<void> thrice;
  const EventLoop::TimerId id = loop->every(milliseconds(1), [&] {
    EXPECT_TRUE(loop->on_loop_thread());
    if (++calls == 3) thrice.set_value();
  });
  EXPECT_NE(id, 0u);
  thrice.get_future().wait();
  loop->cancel_timer(id);
  const int after_cancel = calls;  // ordered by cancel_timer, no lock needed
  std::promise<void> later;
  const EventLoop::TimerId probe = loop->every(milliseconds(5), [&, fired = false]() mutable {
    if (!std::exchange(fired, true)) later.set_value();
  });
  later.get_future().wait();
  loop->cancel_timer(probe);
  EXPECT_EQ(calls, after_cancel);
}

TEST(EventLoop, ATimerMayCancelItself) {
  const auto loop = start_loop();
  int calls = 0;
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = token;
  std::promise<void> called;
  run_on(*loop, [&] {
    // On the loop's thread, so that the id is known before the timer can fire.
    auto id = std::make_shared<EventLoop::TimerId>(0);
    *id = loop->every(std::chrono::nanoseconds(0), [&, id, token = std::move(token)] {
      loop->cancel_timer(*id);
      ++*token;
      ++calls;
      called.set_value();
    });
  });
  called.get_future().wait();
  let_it_turn(*loop);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(alive.expired());
}

TEST(EventLoop, CancelWaitsForARunningTimer) {
  const auto loop = start_loop();
  std::promise<void> entered;
  std::atomic<bool> go_on{false};
  bool finished = false;
  const EventLoop::TimerId id = loop->every(milliseconds(1), [&] {
    if (finished) return;
    entered.set_value();
    while (!go_on) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    finished = true;
  });
  entered.get_future().wait();
  go_on = true;
  loop->cancel_timer(id);
  EXPECT_TRUE(finished);
  loop->cancel_timer(id);
  loop->cancel_timer(12345);
}

// Tells when its thread has ended.
struct ThreadEnd {
  ~ThreadEnd() {
    if (ended != nullptr) ended->set_value();
  }
  std::promise<void>* ended = nullptr;
};
thread_local ThreadEnd thread_end;

TEST(EventLoop, MayBeDestroyedByItsOwnCallback) {
  Pipe pipe;
  std::promise<void> ended;
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = token;
  auto loop = start_loop();
  EventLoop* const raw = loop.get();
  run_on(*raw, [&] { thread_end.ended = &ended; });
  ASSERT_TRUE(raw->add_fd(pipe.reader.get(), EPOLLIN,
                          [owned = std::make_shared<std::unique_ptr<EventLoop>>(std::move(loop)),
                           token = std::move(token)](std::uint32_t) {
                            owned->reset();
                            ++*token;
                          })
                  .ok());
  pipe.fill();
  ended.get_future().wait();
  EXPECT_TRUE(alive.expired());
}

TEST(EventLoop, InAForkedChildRefusesAndIsLeakedWithoutWaiting) {
  Pipe pipe;
  auto loop = start_loop();
  int calls = 0;
  ASSERT_TRUE(loop->add_fd(pipe.reader.get(), EPOLLIN,
                           [&](std::uint32_t) {
                             pipe.drain();
                             ++calls;
                           })
                  .ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a child that waits for its parent's thread must not outlive the test
    const bool refused = loop->add_fd(pipe.writer.get(), EPOLLOUT, [](std::uint32_t) {}).code() ==
                             StatusCode::kForked &&
                         loop->modify_fd(pipe.reader.get(), 0).code() == StatusCode::kForked &&
                         loop->every(milliseconds(1), [] {}) == 0 && !loop->on_loop_thread();
    loop->post([] { ::_exit(2); });
    loop->remove_fd(pipe.reader.get());
    loop->cancel_timer(1);
    loop.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // The epoll set is shared with the child, which must have left it alone.
  pipe.fill();
  let_it_turn(*loop);
  EXPECT_EQ(run_on(*loop, [&] { return calls; }), 1);
}

TEST(EventLoop, KeepsItsPromisesUnderManyThreads) {
  const auto loop = start_loop();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&loop] {
      for (int i = 0; i < 100; ++i) {
        Pipe pipe;
        int calls = 0;  // plain: remove_fd must order the last call before this thread goes on
        int ticks = 0;
        ASSERT_TRUE(loop->add_fd(pipe.reader.get(), EPOLLIN, [&](std::uint32_t) { ++calls; }).ok());
        const EventLoop::TimerId timer = loop->every(milliseconds(1), [&] { ++ticks; });
        pipe.fill();
        loop->post([] {});
        if (i % 4 == 0) std::this_thread::yield();
        loop->remove_fd(pipe.reader.get());
        loop->cancel_timer(timer);
        const int last = calls + ticks;
        std::this_thread::yield();
        ASSERT_EQ(calls + ticks, last);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace farwrite::core
