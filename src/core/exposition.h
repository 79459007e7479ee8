// Exposition: the Prometheus text format, version 0.0.4.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/counter_table.h"

namespace farwrite::core {

class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  // `device` is a label of every sample, if it is given.
  explicit Exposition(std::optional<std::string_view> device) : device_(device) {}

  void family(std::string_view name, std::string_view type, std::string_view help);
  // Of the family that was begun last. Labels without a value are left out.
  // Of a family in seconds, `value` is in nanoseconds.
  void sample(const Labels& labels, std::uint64_t value);

  // The families of counters. `write(row)` writes the samples of one row.
  template <typename Stats, typename Write>
  void families(std::string_view prefix, std::span<const CounterRow<Stats>> rows,
                const Write& write) {
    std::string_view metric;
    for (const CounterRow<Stats>& row : rows) {
      if (row.metric != metric) {
        metric = row.metric;
        family(std::string(prefix) + std::string(metric), row.only_grows() ? "counter" : "gauge",
               row.metric_help.empty() ? row.help : row.metric_help);
        in_seconds_ = row.is_time();
      }
      write(row);
    }
  }

  std::string take() { return std::move(text_); }

 private:
  void escape(std::string_view text);

  const std::optional<std::string_view> device_;
  std::string name_;
  bool in_seconds_ = false;
  std::string text_;
};

}  // namespace farwrite::core
