#include "core/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farwrite::core {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kWarning); }
  void TearDown() override {
    set_log_sink(nullptr);
    set_log_level(LogLevel::kWarning);
  }

  static std::string stderr_of(const std::function<void()>& body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  }

  static std::string line(const std::string& rest) {
    return "farwrite[" + std::to_string(::getpid()) + "] " + rest + "\n";
  }
};

TEST_F(Log, WritesOneLineWithThePidAndTheLevel) {
  EXPECT_EQ(stderr_of([] { log(LogLevel::kWarning, "the arena is full"); }),
            line("warning: the arena is full"));
  EXPECT_EQ(stderr_of([] { log(LogLevel::kError, "gone"); }), line("error: gone"));
}

TEST_F(Log, DropsWhatIsBelowTheThreshold) {
  EXPECT_TRUE(log_enabled(LogLevel::kWarning));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_EQ(stderr_of([] { log(LogLevel::kInfo, "quiet"); }), "");
  set_log_level(LogLevel::kDebug);
  EXPECT_EQ(stderr_of([] { log(LogLevel::kDebug, "loud"); }), line("debug: loud"));
  set_log_level(LogLevel::kOff);
  EXPECT_EQ(stderr_of([] { log(LogLevel::kError, "quiet"); }), "");
}

TEST_F(Log, KeepsTextFromAPeerOnOneLine) {
  EXPECT_EQ(stderr_of([] { log(LogLevel::kError, "name a\nfarwrite[1] error: fake\x1b[2J"); }),
            line("error: name a farwrite[1] error: fake [2J"));
}

TEST_F(Log, KeepsErrno) {
  set_log_sink([](LogLevel, std::string_view) { errno = EPERM; });
  errno = ENOENT;
  log(LogLevel::kError, "x");
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(Log, GoesToTheSinkInsteadOfStderrUntilItIsTakenAway) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  set_log_sink([&](LogLevel level, std::string_view text) { lines.emplace_back(level, text); });
  EXPECT_EQ(stderr_of([] {
              log(LogLevel::kError, "kept");
              log(LogLevel::kInfo, "below the threshold");
            }),
            "");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], std::make_pair(LogLevel::kError, std::string("kept")));
  set_log_sink(nullptr);
  EXPECT_EQ(stderr_of([] { log(LogLevel::kError, "back"); }), line("error: back"));
  EXPECT_EQ(lines.size(), 1u);
}

TEST_F(Log, KeepsTheLinesOfManyThreadsWhole) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  const std::string output = stderr_of([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i) log(LogLevel::kError, std::string(100, char('a' + t)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::istringstream lines(output);
  std::string text;
  int counts[kThreads] = {};
  while (std::getline(lines, text)) {
    const int t = text.back() - 'a';
    ASSERT_TRUE(t >= 0 && t < kThreads) << text;
    ASSERT_EQ(text + "\n", line("error: " + std::string(100, char('a' + t))));
    ++counts[t];
  }
  for (const int count : counts) EXPECT_EQ(count, kLines);
}

TEST_F(Log, TakesANewSinkWhileOtherThreadsLog) {
  std::mutex mutex;
  int received = 0;
  testing::internal::CaptureStderr();
  std::thread logger([] {
    for (int i = 0; i < 500; ++i) log(LogLevel::kError, "x");
  });
  const auto count = [&](LogLevel, std::string_view) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++received;
  };
  for (int i = 0; i < 20; ++i) set_log_sink(i % 2 == 0 ? std::function(count) : nullptr);
  logger.join();
  const std::string output = testing::internal::GetCapturedStderr();
  const std::string one = line("error: x");
  EXPECT_EQ(output.size() / one.size() + static_cast<std::size_t>(received), 500u);
}

// The environment is read once for each process, so every case is a program of its own.
class LogDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[noreturn]] static void log_with_environment(const char* value) {
    if (value == nullptr) {
      ::unsetenv("FARWRITE_LOG");
    } else {
      ::setenv("FARWRITE_LOG", value, 1);
    }
    for (const LogLevel level :
         {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
      log(level, "spoke");
    }
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, "end\n", 4);
    ::_exit(0);
  }
};

TEST_F(LogDeathTest, WarnsByDefault) {
  EXPECT_EXIT(log_with_environment(nullptr), testing::ExitedWithCode(0),
              "^farwrite.[0-9]+. error: spoke\nfarwrite.[0-9]+. warning: spoke\nend");
}

TEST_F(LogDeathTest, TakesTheThresholdFromTheEnvironment) {
  EXPECT_EXIT(log_with_environment("error"), testing::ExitedWithCode(0),
              "^farwrite.[0-9]+. error: spoke\nend");
  EXPECT_EXIT(log_with_environment("debug"), testing::ExitedWithCode(0), "debug: spoke\nend");
  EXPECT_EXIT(log_with_environment("off"), testing::ExitedWithCode(0), "^end");
}

TEST_F(LogDeathTest, WarnsOnceWithTheListWhenTheEnvironmentIsWrong) {
  EXPECT_EXIT(log_with_environment("loud"), testing::ExitedWithCode(0),
              "^farwrite.[0-9]+. warning: FARWRITE_LOG=loud is not a log level; set it to error, "
              "warning, info, debug or off [^\n]*\n"
              "farwrite.[0-9]+. error: spoke\nfarwrite.[0-9]+. warning: spoke\nend");
}

}  // namespace
}  // namespace farwrite::core
