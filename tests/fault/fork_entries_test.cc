// Every public entry of every handle, in a forked child: it gives kForked or works, directly and
// after another call was refused. It never crashes and never hangs, and the parent goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/completion_state.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/fork_world.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr int kHung = 1000;

// How a forked child ended: its exit status, the negative signal, or kHung.
int end_of(pid_t child) {
  int status = 0;
  if (!eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; })) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return kHung;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string without(const std::string& text, const std::string& pattern) {
  return std::regex_replace(text, std::regex(pattern), "");
}

std::string header(const std::string& name) {
  std::ifstream file(std::string(FARWRITE_SOURCE_DIR "/include/farwrite/") + name);
  std::stringstream text;
  text << file.rdbuf();
  return without(text.str(), "//[^\n]*");
}

// The public functions of the class that `text` declares, but for constructors and valid().
std::set<std::string> entries_of(const std::string& text, const std::string& kind) {
  const std::size_t begin = text.find("class FARWRITE_API " + kind + " {");
  if (begin == std::string::npos) return {"the class " + kind + " is not where it was"};
  std::string body = text.substr(begin, text.find("\n};", begin) - begin);
  body = body.substr(0, std::min(body.size(), body.find(" private:")));
  body = body.substr(body.find("public:") + 7);
  const std::regex inner("\\{[^{}]*\\}");  // a function's body ends its declaration
  while (std::regex_search(body, inner)) body = std::regex_replace(body, inner, ";");
  std::set<std::string> names;
  const std::regex function("([~\\w]+)\\(");
  std::stringstream statements(body);
  for (std::string statement; std::getline(statements, statement, ';');) {
    std::smatch found;
    if (statement.find("using ") != std::string::npos) continue;
    if (!std::regex_search(statement, found, function)) continue;
    const std::string name = found[1];
    const bool special = name == kind || name == "operator" || name[0] == '~' || name == "valid";
    if (!special && statement.find("operator=") == std::string::npos) {
      names.insert(kind + "::" + name);
    }
  }
  return names;
}

std::set<std::string> all_entries() {
  const std::map<std::string, std::vector<std::string>> classes = {
      {"device.h", {"Device"}},
      {"channel.h", {"Channel"}},
      {"region.h", {"MemoryRegion", "RemoteRegion", "Alias"}},
      {"completion.h", {"Completion"}},
      {"tensor.h", {"ReceivedTensor", "TensorReceiver", "TensorSender"}},
      {"stream.h", {"Stream", "Streams"}},
      {"box.h", {"LeasedSegment", "Segment", "Client", "Server"}}};
  std::set<std::string> names;
  for (const auto& [file, kinds] : classes) {
    const std::string text = header(file);
    std::set<std::string> declared;
    const std::regex declaration("class FARWRITE_API (\\w+) \\{");
    for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
      declared.insert((*at)[1]);
    }
    EXPECT_EQ(declared, std::set<std::string>(kinds.begin(), kinds.end())) << "in " << file;
    for (const std::string& kind : kinds) names.merge(entries_of(text, kind));
  }
  const std::string c_api = header("c_api.h");
  const std::regex function("FW_API [^;(]*?(fw_\\w+)\\(");
  for (std::sregex_iterator at(c_api.begin(), c_api.end(), function), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

std::string name_of(int outcome) {
  if (outcome == kHung) return "it hung";
  if (outcome < 0) return "signal " + std::to_string(-outcome);
  return std::string(to_string(static_cast<StatusCode>(outcome)));
}

int outcome_in_child(ForkWorld& world, const ForkRow& row, bool after_another) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (after_another) {
      (void)world.client.list();
      (void)world.device.allocate(64);
      (void)world.channel.flush();
    }
    ::_exit(static_cast<int>(row.call(world)));
  }
  return end_of(child);
}

int fork_entries(const Arguments& /*arguments*/) {
  auto world = std::make_unique<ForkWorld>();
  int wrong = 0;
  const auto expect = [&](const std::string& what, int outcome, StatusCode expected) {
    if (outcome == static_cast<int>(expected)) return;
    say("wrong " + what + ": " + name_of(outcome));
    ++wrong;
  };
  for (const ForkRow& row : fork_rows()) {
    expect(row.entry, outcome_in_child(*world, row, false), row.outcome);
    expect(row.entry + " after another", outcome_in_child(*world, row, true), row.outcome);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    world.reset();
    std::exit(0);
  }
  expect("the end of all handles", end_of(child), StatusCode::kOk);
  world->use();
  say("checked " + std::to_string(wrong));
  return 0;
}
const RoleRegistration kForkEntries("fork entries", fork_entries);

using ForkEntries = FaultTest;

TEST_F(ForkEntries, AreAllInTheTable) {
  std::set<std::string> rows;
  for (const ForkRow& row : fork_rows()) rows.insert(row.entry);
  const std::set<std::string> entries = all_entries();
  for (const std::string& entry : entries) {
    EXPECT_TRUE(rows.contains(entry)) << entry << " has no row in fork_rows.cc";
  }
  for (const std::string& row : rows) EXPECT_TRUE(entries.contains(row)) << row << " is gone";
}

TEST_F(ForkEntries, WorkOrAreRefusedInAChild) {
  ChildProcess process("fork entries", {});
  EXPECT_EQ(process.wait_for("checked"), "0") << "see the lines of 'wrong' above";
  EXPECT_EQ(process.finish(), 0);
}

}  // namespace
}  // namespace farwrite::fault
