#include "fault/role.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>

#include "fault/fixture.h"

namespace farwrite::fault {
namespace {

constexpr unsigned kLongestLifeSeconds = 150;

std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> known;
  return known;
}

}  // namespace

RoleRegistration::RoleRegistration(const std::string& name, Role role) { roles()[name] = role; }

std::optional<int> run_role(int argc, char** argv) {
  const char* name = std::getenv(kRoleVariable);
  if (name == nullptr) return std::nullopt;
  ::alarm(kLongestLifeSeconds);
  const auto role = roles().find(name);
  if (role == roles().end()) give_up(__FILE__, __LINE__, std::string("no role ") + name);
  return role->second(Arguments(argv + 1, argv + argc));
}

void say(const std::string& line) { std::cout << line << std::endl; }

std::optional<std::string> hear() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

void hear_the_end() {
  while (hear().has_value()) {
  }
}

Connected connect_to(const std::string& endpoint) {
  auto device = Device::open(quick_options());
  if (!device.ok()) give_up(__FILE__, __LINE__, device.status().to_string());
  auto channel = device->connect(Endpoint::parse(endpoint).value(), kPatience);
  if (!channel.ok()) give_up(__FILE__, __LINE__, channel.status().to_string());
  return {*std::move(device), *std::move(channel)};
}

void give_up(const char* file, int line, const std::string& what) {
  say(std::string("failed: ") + file + ":" + std::to_string(line) + ": " + what);
  ::_exit(1);
}

}  // namespace farwrite::fault
