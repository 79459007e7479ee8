// Arrivals: connections of strangers, which hold descriptors before a handshake vouches for them.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

namespace farwrite::core {

// What one listening socket lets strangers hold.
struct ArrivalLimits {
  std::size_t total = 0;
  std::size_t per_origin = 0;  // a host, or on one host a process

  // An eighth of the descriptors that the process may open now (RLIMIT_NOFILE), 8 to 128 of them,
  // and half of that from one origin.
  static ArrivalLimits of_process() {
    constexpr std::size_t kLeast = 8;
    constexpr std::size_t kMost = 128;
    rlimit limit{};
    std::size_t total = kLeast;
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      total = static_cast<std::size_t>(
          std::clamp<rlim_t>(limit.rlim_cur / 8, rlim_t{kLeast}, rlim_t{kMost}));
    }
    return {total, total / 2};
  }
};

// Which of `arrivals`, oldest first, has to make room for one more of `origin`: the oldest of this
// origin if it has its share, else, when all places are taken, the oldest of the origin that has
// most; end() if there is room. So a crowd from one host pushes out its own. An arrival has
// `origin`, and waits() unless it is about to go.
template <typename List>
typename List::iterator find_crowding(List& arrivals, const std::string& origin,
                                      const ArrivalLimits& limits) {
  std::map<std::string, std::size_t> counts;
  std::size_t total = 0;
  for (const auto& arrival : arrivals) {
    if (!arrival.waits()) continue;
    ++counts[arrival.origin];
    ++total;
  }
  const std::string* crowd = nullptr;
  if (const auto own = counts.find(origin);
      own != counts.end() && own->second >= limits.per_origin) {
    crowd = &origin;
  } else if (total >= limits.total && total > 0) {
    crowd = &std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
               return a.second < b.second;
             })->first;
  }
  if (crowd == nullptr) return arrivals.end();
  return std::find_if(arrivals.begin(), arrivals.end(), [&](const auto& arrival) {
    return arrival.waits() && arrival.origin == *crowd;
  });
}

}  // namespace farwrite::core
