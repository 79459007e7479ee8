#include "fault/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/deadline.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr std::chrono::seconds kHangGuard(60);

}  // namespace

ChildProcess::ChildProcess(const std::string& role, const std::vector<std::string>& arguments) {
  int to_child[2];
  int from_child[2];
  if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) std::abort();
  std::string variable(kRoleVariable);
  variable.append("=").append(role);
  std::vector<char*> words{const_cast<char*>("farwrite_fault_role")};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  // A child that forks, or that has no descriptor left, ends in ways LeakSanitizer cannot follow.
  std::vector<char*> environment{const_cast<char*>(variable.c_str()),
                                 const_cast<char*>("LSAN_OPTIONS=detect_leaks=0")};
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  environment.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(to_child[0], STDIN_FILENO);
    ::dup2(from_child[1], STDOUT_FILENO);
    ::execve("/proc/self/exe", words.data(), environment.data());
    ::_exit(127);
  }
  ::close(to_child[0]);
  ::close(from_child[1]);
  input_ = to_child[1];
  output_ = from_child[0];
}

ChildProcess::~ChildProcess() {
  kill();
  if (input_ >= 0) ::close(input_);
  ::close(output_);
}

std::string ChildProcess::wait_for(const std::string& word) {
  const core::Deadline deadline = core::Deadline::after(kHangGuard);
  while (true) {
    for (std::size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      if (line.rfind(word, 0) == 0) {
        return line.size() > word.size() ? line.substr(word.size() + 1) : "";
      }
    }
    pollfd entry{output_, POLLIN, 0};
    char buffer[4096];
    const bool ready = ::poll(&entry, 1, deadline.poll_timeout_ms()) > 0;
    const ssize_t count = ready ? ::read(output_, buffer, sizeof(buffer)) : 0;
    if (count <= 0) {
      ADD_FAILURE() << "the child " << (ready ? "ended" : "said nothing more") << " before \""
                    << word << "\"; it had said:\n"
                    << said_;
      return "";
    }
    unread_.append(buffer, static_cast<std::size_t>(count));
    said_.append(buffer, static_cast<std::size_t>(count));
  }
}

void ChildProcess::tell(const std::string& line) {
  const std::string text = line + "\n";
  ASSERT_EQ(::write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void ChildProcess::stop() {
  ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
  ASSERT_TRUE(WIFSTOPPED(status));
}

void ChildProcess::resume() { ASSERT_EQ(::kill(pid_, SIGCONT), 0); }

void ChildProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int ChildProcess::finish() {
  ::close(input_);
  input_ = -1;
  const core::Deadline deadline = core::Deadline::after(kHangGuard);
  while (!deadline.expired()) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return -1;
}

std::string ChildProcess::last_line() {
  char buffer[4096];
  while (true) {
    const ssize_t count = ::read(output_, buffer, sizeof(buffer));
    if (count <= 0) break;
    said_.append(buffer, static_cast<std::size_t>(count));
  }
  std::string text = said_;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace farwrite::fault
