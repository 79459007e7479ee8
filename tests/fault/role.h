// Roles: what this test program does as a child process of another program.
//
// A role talks to its test in lines: `say()` on stdout, `hear()` from stdin. Its input ends when
// the test is done with it, and then it should return.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace farwrite::fault {

// Holds the role's name; set for children only.
inline constexpr const char* kRoleVariable = "FARWRITE_FAULT_ROLE";

using Arguments = std::vector<std::string>;
using Role = int (*)(const Arguments&);

// At namespace scope: makes `role` known as `name`.
struct RoleRegistration {
  RoleRegistration(const std::string& name, Role role);
};

// Runs the role that the environment asks for; nothing if it asks for none.
std::optional<int> run_role(int argc, char** argv);

void say(const std::string& line);
// The test's next line, or nothing once it is done with us.
std::optional<std::string> hear();
void hear_the_end();

// A device with options fit for tests, connected to the test's endpoint; ends the process with a
// line on failure.
struct Connected {
  Device device;
  Channel channel;
};
Connected connect_to(const std::string& endpoint);

// Says what failed, with its place, and ends the process.
[[noreturn]] void give_up(const char* file, int line, const std::string& what);

}  // namespace farwrite::fault

// For roles: EXPECT_* would report to nothing there.
#define FARWRITE_REQUIRE(condition)                                               \
  do {                                                                            \
    if (!(condition)) ::farwrite::fault::give_up(__FILE__, __LINE__, #condition); \
  } while (false)
#define FARWRITE_REQUIRE_OK(status)                                                   \
  do {                                                                                \
    const ::farwrite::Status farwrite_required_ = (status);                           \
    if (!farwrite_required_.ok())                                                     \
      ::farwrite::fault::give_up(__FILE__, __LINE__, farwrite_required_.to_string()); \
  } while (false)
