#include "faults.h"

#include <cstdlib>
#include <sstream>

#include "own_library.h"

namespace farwrite::cuda_double {
namespace {

// Whether all of [at, end of text) is a positive number, up to `rest`.
bool read_positive(const char* at, unsigned long long* value, const char** rest) {
  if (*at < '0' || *at > '9') return false;
  char* end = nullptr;
  *value = std::strtoull(at, &end, 10);
  *rest = end;
  return *value > 0;
}

}  // namespace

bool Faults::parse(const std::string& text, Fault* fault, std::string* problem) {
  const std::size_t equals = text.find('=');
  unsigned long long error = 0;
  unsigned long long which = 1;
  const char* rest = nullptr;
  if (equals == std::string::npos || !read_positive(text.c_str() + equals + 1, &error, &rest) ||
      error > kUnknown || (*rest == '@' && !read_positive(rest + 1, &which, &rest)) ||
      (*rest != '\0' && std::string(rest) != "+")) {
    *problem = "CUDA_DOUBLE_FAIL: \"" + text + "\" is not FUNCTION=ERROR, FUNCTION=ERROR@CALL or " +
               "FUNCTION=ERROR@CALL+";
    return false;
  }
  fault->function = text.substr(0, equals);
  if (!is_driver_function(fault->function)) {
    *problem = "CUDA_DOUBLE_FAIL: the double has no function " + fault->function +
               "; name the symbol, as in cuMemAlloc_v2";
    return false;
  }
  fault->error = static_cast<CUresult>(error);
  fault->passes = which - 1;
  fault->stays = *rest == '+';
  return true;
}

bool Faults::set(const std::string& text, std::string* problem) {
  std::vector<Fault> faults;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');) {
    if (!parse(one, &faults.emplace_back(), problem)) return false;
  }
  faults_ = std::move(faults);
  return true;
}

CUresult Faults::count(const char* function) {
  ++calls_[function];
  CUresult answer = kSuccess;
  for (auto fault = faults_.begin(); fault != faults_.end();) {
    if (fault->function != function) {
      ++fault;
    } else if (fault->passes > 0) {
      --fault->passes;
      ++fault;
    } else {
      if (answer == kSuccess) answer = fault->error;
      fault = fault->stays ? fault + 1 : faults_.erase(fault);
    }
  }
  return answer;
}

unsigned long long Faults::calls(const std::string& function) const {
  const auto at = calls_.find(function);
  return at == calls_.end() ? 0 : at->second;
}

}  // namespace farwrite::cuda_double
