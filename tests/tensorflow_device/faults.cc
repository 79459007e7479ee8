#include "faults.h"

namespace fartest {

Faults& Faults::of_process() {
  static Faults faults;
  return faults;
}

Faults::Plan& Faults::plan(Direction direction) {
  return direction == Direction::kToHost ? to_host_ : to_device_;
}

void Faults::fail(Direction direction, std::uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  plan(direction).fails_at = plan(direction).begun + number;
}

void Faults::hold(Direction direction, std::uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  plan(direction).held_at = plan(direction).begun + number;
}

void Faults::release() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++releases_;
  to_host_.held_at = to_device_.held_at = 0;
}

Faults::Verdict Faults::next(Direction direction) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Plan& plan = this->plan(direction);
  ++plan.begun;
  Verdict verdict;
  verdict.fails = plan.begun == plan.fails_at;
  if (plan.begun == plan.held_at) verdict.held = releases_ + 1;
  return verdict;
}

bool Faults::released(std::uint64_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return releases_ >= ticket;
}

void Faults::limit_memory(std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_limit_ = bytes;
}

std::size_t Faults::memory_limit() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return memory_limit_;
}

}  // namespace fartest
