#include "step/device_sends.h"

#include <utility>
#include <vector>

#include "core/mutex.h"

namespace farwrite::plugin {

struct DeviceSends::DueSend {
  std::shared_ptr<Line> line;  // null: the step is over
  std::function<void()> push;
};

// The sends of one edge, the oldest first.
struct DeviceSends::Line {
  std::string edge;
  std::deque<TurnRef> turns;
  bool pushing = false;  // by a thread that goes on with what becomes ready
};

DeviceSends::TurnRef DeviceSends::add(const std::string& edge) {
  auto turn = std::make_shared<DueSend>();
  const core::Lock lock(mutex_);
  std::shared_ptr<Line>& line = lines_[edge];
  if (line == nullptr) {
    line = std::make_shared<Line>();
    line->edge = edge;
  }
  turn->line = line;
  line->turns.push_back(turn);
  return turn;
}

void DeviceSends::ready(const TurnRef& turn, std::function<void()> push) {
  core::Lock lock(mutex_);
  const std::shared_ptr<Line> line = turn->line;
  if (line == nullptr) return;
  turn->push = std::move(push);
  if (line->pushing) return;
  line->pushing = true;
  while (!line->turns.empty() && line->turns.front()->push) {
    std::function<void()> next = std::move(line->turns.front()->push);
    line->turns.front()->line = nullptr;
    line->turns.pop_front();
    lock.unlock();
    next();
    next = nullptr;  // with what it holds, under no lock
    lock.lock();
  }
  line->pushing = false;
  const auto place = lines_.find(line->edge);
  if (line->turns.empty() && place != lines_.end() && place->second == line) lines_.erase(place);
}

void DeviceSends::clear() {
  std::unordered_map<std::string, std::shared_ptr<Line>> lines;
  std::vector<std::function<void()>> dropped;  // with what they hold, after the lock
  const core::Lock lock(mutex_);
  lines.swap(lines_);
  for (const auto& [edge, line] : lines) {
    for (const TurnRef& turn : line->turns) {
      turn->line = nullptr;
      dropped.push_back(std::exchange(turn->push, nullptr));
    }
    line->turns.clear();
  }
}

}  // namespace farwrite::plugin
