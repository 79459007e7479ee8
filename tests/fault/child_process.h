// ChildProcess: this test program started again in a role (role.h), on a leash.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace farwrite::fault {

// The child is killed and reaped when this goes, so a failing test leaves nothing behind.
class ChildProcess {
 public:
  ChildProcess(const std::string& role, const std::vector<std::string>& arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Waits for the child's next line that starts with `word` and returns the rest of it. Fails the
  // test, with everything the child said, if the child ends or a minute passes before.
  std::string wait_for(const std::string& word);
  // A line for `RoleIo::hear()`.
  void tell(const std::string& line);

  void stop();  // SIGSTOP; returns once the process is stopped
  void resume();
  void kill();  // SIGKILL and reap
  // Closes the child's input, which ends every role, and returns its exit status; -1 if a signal
  // ended it or it did not end within a minute.
  int finish();
  // The last line of a child that has ended.
  std::string last_line();

  const std::string& said() const { return said_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string unread_;
  std::string said_;
};

}  // namespace farwrite::fault
