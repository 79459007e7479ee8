// SlotCredits: the sender's half of landing: which slots of one peer this process may write now.
//
// A credit is used by one write and comes back when the receiver's last tensor in the slot is gone.
// No credit is no obstacle: the tensor is offered instead, and the receiver reads it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "farwrite/c_api.h"

namespace farwrite::plugin {

using Target = std::shared_ptr<fw_target>;

struct Credit {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  Target target;
};

// Thread-safe.
class SlotCredits {
 public:
  // A credit for so many bytes of this edge, if there is one.
  std::optional<Credit> take(std::string_view edge, std::uint64_t bytes);
  // The receiver has opened a slot, and grants it. False if it has withdrawn it meanwhile, or gone.
  bool opened(std::string_view edge, std::uint32_t slot, std::uint64_t generation,
              std::uint64_t capacity, Target target);
  // It could not be opened here.
  void not_opened(std::uint32_t slot);
  // The receiver grants the slot anew, or the write that was to use it was never posted. False if
  // the slot is not known any more: the receiver must hear that it is given up.
  bool freed(std::uint32_t slot, std::uint64_t generation);
  // The receiver wants the slot back, and it is forgotten. True if nothing is written into it;
  // otherwise the push that is under way tells the receiver.
  bool withdrawn(std::uint32_t slot);
  // The peer has gone.
  void clear();

 private:
  struct Slot {
    std::string edge;
    std::uint64_t capacity = 0;
    Target target;
    std::optional<std::uint64_t> granted;  // the generation, if it may be written
  };

  std::mutex mutex_;
  bool cleared_ = false;
  std::unordered_map<std::uint32_t, Slot> slots_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_edge_;
  std::unordered_set<std::uint32_t> withdrawn_early_;  // before they were opened here
};

}  // namespace farwrite::plugin
