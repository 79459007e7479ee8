// Sequence: what has arrived on an edge, in the order of sending.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace farwrite::transfer {

// Where notifications tell of tensors, they come in the order of their lane already, and a number
// that is left out is a tensor that nothing will see. Tail flags overtake each other and the
// offers: there every number has to come, in whatever form. Thread-compatible.
template <typename Item>
class Sequence {
 public:
  explicit Sequence(bool overtaking) : overtaking_(overtaking) {}

  // Whether the number is one that may still come.
  bool expects(std::uint64_t number) const { return number > last_ && !early_.contains(number); }
  // An expected one has come; without an item it is one that nothing shall see.
  void add(std::uint64_t number, std::optional<Item> item) {
    ++count_;
    if (!overtaking_) {
      last_ = number;
      if (item.has_value()) ready_.push_back(*std::move(item));
      return;
    }
    early_.emplace(number, std::move(item));
    for (auto next = early_.begin(); next != early_.end() && next->first == last_ + 1;
         next = early_.erase(next)) {
      ++last_;
      if (next->second.has_value()) ready_.push_back(*std::move(next->second));
    }
  }

  // What may be received, in order.
  std::deque<Item>& ready() { return ready_; }
  const std::deque<Item>& ready() const { return ready_; }
  // The last number that has come, with all before it or known to be left out.
  std::uint64_t last() const { return last_; }
  // What has come and nothing has received, in order or not.
  std::size_t waiting() const { return ready_.size() + early_.size(); }
  // How many numbers were added.
  std::uint64_t count() const { return count_; }
  // Takes everything out that has come; the numbers have been.
  std::vector<Item> drop() {
    std::vector<Item> dropped;
    for (Item& item : ready_) dropped.push_back(std::move(item));
    ready_.clear();
    for (auto& [number, item] : early_) {
      if (item.has_value()) dropped.push_back(*std::exchange(item, std::nullopt));
    }
    return dropped;
  }

 private:
  const bool overtaking_;
  std::uint64_t last_ = 0;
  std::uint64_t count_ = 0;
  std::deque<Item> ready_;
  std::map<std::uint64_t, std::optional<Item>> early_;
};

}  // namespace farwrite::transfer
