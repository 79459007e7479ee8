// Every call under one fault after another. The role "matrix" does it in a process of its own:
//
//   FARWRITE_FAULT_ROLE=matrix build/release/tests/farwrite_fault_tests tcp stopped [ENTRY]...
//
// It says a line for each call that did not end as its row says, or "survivor fine" when every call
// did and it has served another peer afterwards. Status 2: a word is neither a fault nor an entry.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fault/fixture.h"
#include "fault/matrix_world.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

// Calls that end a handle, each before those that end what it belongs to.
constexpr const char* kEndings[] = {"Device::unpublish",
                                    "Segment::free",
                                    "Segment::detach",
                                    "fw_segment_detach",
                                    "fw_segment_release",
                                    "Server::drop",
                                    "fw_box_server_drop",
                                    "Client::close",
                                    "fw_box_client_close",
                                    "fw_box_client_release",
                                    "Server::close",
                                    "fw_box_server_close",
                                    "fw_box_server_release",
                                    "Stream::abort",
                                    "fw_stream_abort",
                                    "fw_stream_release",
                                    "TensorSender::abandon",
                                    "fw_sender_abandon",
                                    "TensorSender::close",
                                    "fw_sender_close",
                                    "fw_sender_release",
                                    "TensorReceiver::close",
                                    "fw_receiver_close",
                                    "fw_receiver_release",
                                    "MemoryRegistration::release",
                                    "MemoryRegion::close",
                                    "fw_remote_release",
                                    "fw_region_close",
                                    "fw_region_release",
                                    "fw_landed_release",
                                    "fw_channel_close",
                                    "fw_channel_release",
                                    "Channel::close",
                                    "fw_device_close",
                                    "fw_device_release",
                                    "Device::close"};

// The rest may use what they need in any order, and at the same time.
bool ends_something(const Row& row) {
  return std::find(std::begin(kEndings), std::end(kEndings), row.entry) != std::end(kEndings);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " or ") + word;
  return text;
}

// A call, and what came of it.
struct Made {
  const Row* row;
  Status outcome;

  void run(MatrixWorld& world, const std::string& fault, const std::string& fabric) {
    limit() = row->runs_out(fault, fabric) ? kShort : kPatience;
    outcome = row->call(world);
  }

  // What is wrong with the outcome, or nothing.
  std::string problem(const std::string& fault, const std::string& fabric) const {
    const std::vector<std::string> allowed = row->allowed(fault, fabric);
    const std::string name = outcome_name(outcome);
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      return row->entry + ": " + name + " (" + outcome.message() + "), not " + joined(allowed);
    }
    // An error names the operation, the cause, and what to do.
    const std::string& text = outcome.message();
    const bool whole = text.find(": ") != std::string::npos &&
                       text.find("; ") != std::string::npos &&
                       text.find(": ;") == std::string::npos;
    if (text.empty() || whole) return "";
    return row->entry + ": the error does not say what to do: " + text;
  }
};

// Does something in a thread of its own, and ends the process with its name if it does not return.
class Bounded {
 public:
  Bounded(std::string name, std::function<void()> work)
      : name_(std::move(name)), thread_([this, work = std::move(work)] {
          work();
          over_ = true;
        }) {}
  ~Bounded() {
    // Longer than any limit.
    if (!eventually([this] { return over_.load(); }) &&
        !eventually([this] { return over_.load(); })) {
      say(name_ + ": does not return");
      ::_exit(1);
    }
    thread_.join();
  }
  Bounded(const Bounded&) = delete;
  Bounded& operator=(const Bounded&) = delete;

 private:
  const std::string name_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

std::vector<Made> calls(bool ending, const std::vector<std::string>& only) {
  std::vector<Made> made;
  for (const Row& row : matrix_rows()) {
    const bool wanted =
        only.empty() || std::find(only.begin(), only.end(), row.entry) != only.end();
    if (wanted && ends_something(row) == ending) made.push_back({&row, Status()});
  }
  if (!ending) return made;
  std::sort(made.begin(), made.end(), [](const Made& a, const Made& b) {
    return std::find(std::begin(kEndings), std::end(kEndings), a.row->entry) <
           std::find(std::begin(kEndings), std::end(kEndings), b.row->entry);
  });
  return made;
}

// Makes each call in a thread of its own; at last those that end a handle, one after another.
std::vector<Made> run_all(MatrixWorld& world, const std::string& fault, const std::string& fabric,
                          const std::vector<std::string>& only) {
  std::vector<Made> made = calls(false, only);
  {
    std::vector<std::unique_ptr<Bounded>> running;
    for (Made& call : made) {
      running.push_back(
          std::make_unique<Bounded>(call.row->entry, [&] { call.run(world, fault, fabric); }));
    }
  }
  for (Made& call : calls(true, only)) {
    {
      const Bounded running(call.row->entry, [&] { call.run(world, fault, fabric); });
    }
    made.push_back(call);
  }
  return made;
}

// Calls that wait when the fault comes. They end as if they were made after it.
class Waiting {
 public:
  Waiting(MatrixWorld& world, const std::string& fault, const std::string& fabric,
          const std::vector<std::string>& only) {
    for (Made& call : calls(false, only)) {
      if (call.row->runs_out("none", fabric) && !call.row->runs_out(fault, fabric)) {
        made_.push_back(call);
      }
    }
    for (Made& call : made_) {
      running_.push_back(std::make_unique<Bounded>(
          call.row->entry + " meanwhile",
          [&world, &call, fault, fabric] { call.run(world, fault, fabric); }));
    }
    // One that begins later is made after the fault.
    if (!made_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::vector<Made>& ended() {
    running_.clear();
    return made_;
  }

 private:
  std::vector<Made> made_;
  std::vector<std::unique_ptr<Bounded>> running_;
};

// Until it is known that the peer is gone: mapped memory can be read until then.
void wait_for_the_end(MatrixWorld& world) {
  for (Channel* channel : world.channels()) {
    FARWRITE_REQUIRE(eventually([&] {
      const PeerState state = channel->peer_state();
      return state == PeerState::kDead || state == PeerState::kClosed;
    }));
  }
  FARWRITE_REQUIRE(eventually([&] {
    const StatusCode code = world.client.list().status().code();
    return code == StatusCode::kPeerDead || code == StatusCode::kUnavailable;
  }));
}

void use_up_descriptors() {
  const int lowest = ::dup(0);  // the first that is free
  ::close(lowest);
  rlimit limit{};
  FARWRITE_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = static_cast<rlim_t>(lowest);
  FARWRITE_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

void strike(const std::string& fault, MatrixWorld& world) {
  if (fault == "killed") {
    world.far->kill();
    wait_for_the_end(world);
  } else if (fault == "stopped") {
    world.far->stop();
  } else if (fault == "closed") {
    world.far->close();
    wait_for_the_end(world);
  } else if (fault == "shut") {
    world.close_each_handle();
  } else if (fault == "parent") {
    world.close_parents();
  } else if (fault == "descriptors") {
    use_up_descriptors();
  } else {
    FARWRITE_REQUIRE(fault == "none");
  }
}

int problems = 0;

void complain(const std::string& fault, const std::string& problem) {
  if (problem.empty()) return;
  say(fault + ": " + problem);
  ++problems;
}

// Ends the world; what was promised to call back has done so then.
void end(std::unique_ptr<MatrixWorld> world, const std::string& fault,
         const std::vector<std::shared_ptr<Answer>>& answers) {
  {
    const Bounded ending("the end of all handles", [&] { world.reset(); });
  }
  for (const auto& answer : answers) {
    (void)eventually([&] { return answer->settled(); });
    complain(fault, answer->problem());
  }
}

void under(const std::string& fault, const std::string& fabric,
           const std::vector<std::string>& only) {
  std::vector<std::shared_ptr<Answer>> answers;
  auto world =
      std::make_unique<MatrixWorld>(fabric, fault == "stopped" ? kShort : kPatience, answers);
  rlimit limit{};
  FARWRITE_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  Waiting waiting(*world, fault, fabric, only);
  strike(fault, *world);
  const std::vector<Made> waited = waiting.ended();
  // Of the peer's end, and not of its own, a C program is told once.
  const int ends = fault == "killed" || fault == "closed" ? 1 : 0;
  (void)eventually([&] { return world->c_ends.load() >= ends; });
  const std::vector<Made> made = run_all(*world, fault, fabric, only);
  if (world->c_ends.load() != ends) {
    complain(fault, "on_end was called " + std::to_string(world->c_ends.load()) + " times");
  }
  FARWRITE_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  if (fault == "stopped") world->far->resume();
  end(std::move(world), fault, answers);
  for (const Made& call : waited) complain(fault + " meanwhile", call.problem(fault, fabric));
  for (const Made& call : made) complain(fault, call.problem(fault, fabric));
}

// Makes the call in a forked child, which says what is wrong with it.
void in_a_child(MatrixWorld& world, Made& call, const std::string& fabric, bool after_another) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (after_another) {
      (void)world.client.list();
      (void)world.device.allocate(64);
      (void)world.channel.flush();
    }
    call.run(world, "forked", fabric);
    const std::string problem = call.problem("forked", fabric);
    if (!problem.empty()) {
      say("forked: " + problem + (after_another ? " after another call" : ""));
    }
    ::_exit(problem.empty() ? 0 : 1);
  }
  int status = 0;
  if (!eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; })) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    complain("forked", call.row->entry + ": hung");
  } else if (WIFSIGNALED(status)) {
    complain("forked", call.row->entry + ": signal " + std::to_string(WTERMSIG(status)));
  } else {
    problems += WEXITSTATUS(status);
  }
}

// TSan starts no thread in a child of a process with threads.
bool can_be_forked(const Row& row) {
#ifdef __SANITIZE_THREAD__
  const std::vector<std::string> starting = {"Device::open", "Client::connect", "Server::serve",
                                             "fw_device_open"};
  return std::find(starting.begin(), starting.end(), row.entry) == starting.end();
#else
  return !row.entry.empty();
#endif
}

void forked(const std::string& fabric, const std::vector<std::string>& only) {
  std::vector<std::shared_ptr<Answer>> answers;
  auto world = std::make_unique<MatrixWorld>(fabric, kPatience, answers);
  for (const bool ending : {false, true}) {
    for (Made& call : calls(ending, only)) {
      if (!can_be_forked(*call.row)) continue;
      for (const bool after_another : {false, true}) {
        in_a_child(*world, call, fabric, after_another);
      }
    }
  }
  const pid_t child = ::fork();
  if (child == 0) {
    (void)world->far.release();  // its parent's
    world.reset();
    std::exit(0);
  }
  int status = 0;
  FARWRITE_REQUIRE(eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; }));
  if (status != 0) complain("forked", "the end of all handles: " + std::to_string(status));
  for (const Made& call : run_all(*world, "none", fabric, only))
    complain("parent", call.problem("none", fabric));
  end(std::move(world), "parent", answers);
}

// Arguments: the fabric, then faults; and the only entries to try.
int matrix(const Arguments& arguments) {
  static const std::set<std::string> fabrics = {"shm", "tcp", "encrypted", "simulated"};
  if (arguments.empty() || !fabrics.contains(arguments[0])) {
    say("matrix: the first word must be a fabric: shm, tcp, encrypted or simulated; not '" +
        (arguments.empty() ? "" : arguments[0]) + "'");
    return 2;
  }
  const std::string& fabric = arguments[0];
  std::set<std::string> entries;
  for (const Row& row : matrix_rows()) entries.insert(row.entry);
  std::vector<std::string> chosen;
  std::vector<std::string> only;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const bool is_fault = faults().contains(arguments[i]);
    if (!is_fault && !entries.contains(arguments[i])) {
      say("matrix: '" + arguments[i] +
          "' is neither a fault nor an entry; tests/fault/matrix_kinds.cc names the faults, "
          "matrix_rows.cc and matrix_c_*.cc the entries");
      return 2;
    }
    (is_fault ? chosen : only).push_back(arguments[i]);
  }
  if (chosen.empty()) {
    say("matrix: no word is a fault; tests/fault/matrix_kinds.cc names the faults");
    return 2;
  }
  under("none", fabric, only);  // what a process opens once is open from now on
  for (const std::string& fault : chosen) {
    const Holdings before = Holdings::now();
    if (fault == "forked") {
      forked(fabric, only);
    } else {
      under(fault, fabric, only);
    }
    if (!eventually([&] { return Holdings::now().within(before); })) {
      complain(fault, "held afterwards: " + ::testing::PrintToString(Holdings::now()) +
                          "\nbefore: " + ::testing::PrintToString(before));
    }
  }
  under("none", fabric, only);
  if (problems == 0) say("survivor fine");
  return problems == 0 ? 0 : 1;
}
const RoleRegistration kMatrix("matrix", matrix);

}  // namespace
}  // namespace farwrite::fault
