// Faults: which call of which function fails with what, and how often each was called.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "driver_api.h"

namespace farwrite::cuda_double {

// Under Double::lock.
class Faults {
 public:
  // Replaces all faults; the text is described at cudaDoubleFail(). False with a sentence in
  // `problem`, and nothing replaced, if it cannot be read.
  bool set(const std::string& text, std::string* problem);
  void forget_calls() { calls_.clear(); }

  // Counts a call. The error that it shall answer, or kSuccess.
  CUresult count(const char* function);
  unsigned long long calls(const std::string& function) const;

 private:
  struct Fault {
    std::string function;
    CUresult error = kSuccess;
    unsigned long long passes = 0;  // calls that come before
    bool stays = false;
  };
  static bool parse(const std::string& text, Fault* fault, std::string* problem);

  std::vector<Fault> faults_;
  std::map<std::string, unsigned long long> calls_;
};

// After one of these errors, the driver returns it for that context until the process ends.
inline bool sticks(CUresult error) { return error == kIllegalAddress || error == kLaunchFailed; }

}  // namespace farwrite::cuda_double
