#include "fault/matrix_kinds.h"

#include <algorithm>

namespace farwrite::fault {
namespace {

const std::map<std::string, Differs>& kinds() {
  static const Differs returns = {
      {"none", kReturns}, {"killed", kReturns}, {"stopped", kReturns}, {"closed", kReturns},
      {"shut", kReturns}, {"parent", kReturns}, {"forked", kReturns},
  };
  const auto with = [](Differs differs) {
    differs.insert(returns.begin(), returns.end());
    return differs;
  };
  static const std::map<std::string, Differs> all = {
      {"fact", returns},
      {"count", with({{"forked", "Forked"}})},
      {"own", with({{"shut", kClosed}, {"parent", kClosed}, {"forked", "Forked"}})},
      {"peer",
       {{"none", kReturns},
        {"killed", "PeerDead"},
        {"stopped", kSilent},
        {"closed", "Unavailable"},
        {"shut", kClosed},
        {"parent", kClosed},
        {"forked", "Forked"}}},
      {"ending",
       with({{"stopped", {"returns", "DeadlineExceeded", "PeerSilent"}}, {"forked", "Forked"}})},
  };
  return all;
}

}  // namespace

std::chrono::milliseconds& limit() {
  static thread_local std::chrono::milliseconds mine = kShort;
  return mine;
}

std::string outcome_name(const Status& status) {
  if (status.ok()) return "returns";
  std::string name;
  bool upper = true;
  for (const char letter : to_string(status.code())) {
    if (letter != ' ') name += upper ? static_cast<char>(letter & ~0x20) : letter;
    upper = letter == ' ';
  }
  return name;
}

Outcome Outcome::by_fabric(const Outcome& mapped, const Outcome& other) {
  Outcome both = mapped;
  both.other = other.other;
  return both;
}

const std::map<std::string, std::string>& faults() {
  static const std::map<std::string, std::string> all = {
      {"none", "nothing happened"},
      {"killed", "its peer was killed"},
      {"stopped", "its peer does not run (SIGSTOP)"},
      {"closed", "its peer closed normally"},
      {"shut", "its own handle was closed"},
      {"parent", "the device, client or server that it belongs to was closed"},
      {"descriptors", "this process has no descriptor left"},
      {"forked", "it is called in a forked child"},
  };
  return all;
}

std::vector<std::string> Row::allowed(const std::string& fault, const std::string& fabric) const {
  if (fault == "descriptors") {
    std::vector<std::string> names = allowed("none", fabric);
    names.emplace_back("ResourceExhausted");
    return names;
  }
  const auto differing = differs.find(fault);
  const Outcome& outcome =
      differing != differs.end() ? differing->second : kinds().at(kind).at(fault);
  const bool maps = fabric == "shm" || fabric == "simulated";
  return maps ? outcome.mapped : outcome.other;
}

bool Row::runs_out(const std::string& fault, const std::string& fabric) const {
  const std::vector<std::string> names = allowed(fault, fabric);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "DeadlineExceeded" || name == "PeerSilent";
  });
}

}  // namespace farwrite::fault
