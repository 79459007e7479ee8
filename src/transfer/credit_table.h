// CreditTable: the sender's half of slots: which slots of its peer this process may write.
//
// A slot is announced by its receiver, opened here (which may wait for the peer, so the caller does
// it), and then written once for each grant. A credit comes back when the receiver's last view of
// the tensor is gone. Without a credit a tensor is offered instead.
//
// Thread-compatible: no channel, no thread, no lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/channel.h"
#include "transfer/records.h"

namespace farwrite::transfer {

class CreditTable {
 public:
  // An honest receiver has fewer slots. Each costs its description.
  static constexpr std::size_t kMaxSlotsOfPeer = 65536;

  // A credit that was taken, and where it allows to write.
  struct Taken {
    Credit credit;
    RemoteRegion target;
  };
  struct Counts {
    std::uint64_t grants = 0;     // ever
    std::uint64_t available = 0;  // now
  };

  // The receiver has announced a slot. False: the number is in use, or there are too many.
  bool announce(std::string_view edge, AnnouncedSlot announced);
  // The next slot of the edge to open; opened() or not_opened() must follow.
  std::optional<AnnouncedSlot> next_to_open(std::string_view edge);
  // False: the receiver has withdrawn it meanwhile, or closed the edge; it must be given up.
  bool opened(std::uint32_t slot, RemoteRegion target);
  void not_opened(std::uint32_t slot);

  // A credit for so many bytes of this edge, if there is one.
  std::optional<Taken> take(std::string_view edge, std::uint64_t bytes);
  bool has(std::string_view edge, std::uint64_t bytes) const;
  // The write was never posted. False: the slot was withdrawn meanwhile, and must be given up.
  bool put_back(Credit credit);
  // The receiver grants the slot again. False: no such slot, or it is granted already.
  bool grant(Credit credit);
  // The receiver has aborted: an unused credit goes on under the new generation. A used one comes
  // back by a grant, once the receiver has recognized its push by the old generation. False: no
  // such slot.
  bool reset(Credit credit);

  // The receiver wants the slot back, and it is forgotten. True if it must be given up now; else
  // the push that is under way, or opened(), does.
  bool withdraw(std::uint32_t slot, RemoteRegion& gone);
  // This side writes no more: nothing is taken or opened any more. Grants may still come. Fills
  // `gone`, which the caller drops once it holds no lock.
  void close_edge(std::string_view edge, std::vector<RemoteRegion>& gone);
  // The receiver has closed the edge: its slots are forgotten. Fills `gone`, which the caller drops
  // once it holds no lock.
  void forget_edge(std::string_view edge, std::vector<RemoteRegion>& gone);

  // The channel has ended.
  void clear(std::vector<RemoteRegion>& gone);

  Counts counts(std::string_view edge) const;

 private:
  // A slot of the peer.
  struct RemoteSlot {
    std::string edge;
    AnnouncedSlot announced;
    bool opening = false;
    bool withdrawn = false;                // while it is being opened
    RemoteRegion target;                   // once it is open
    std::optional<std::uint64_t> granted;  // the generation, if it may be written
  };
  struct EdgeCredits {
    std::deque<std::uint32_t> to_open;
    std::deque<std::uint32_t> granted;  // open, oldest grant first
    std::vector<std::uint32_t> slots;
    std::uint64_t grants = 0;
    bool closed = false;  // by this side
  };
  // Of the edge's grants, the oldest that is large enough.
  std::deque<std::uint32_t>::const_iterator fitting(const EdgeCredits& edge,
                                                    std::uint64_t bytes) const;
  // An edge without slots is forgotten.
  void leave_edge(const std::string& name, std::uint32_t number);

  std::unordered_map<std::uint32_t, RemoteSlot> slots_;
  std::map<std::string, EdgeCredits, std::less<>> edges_;
};

}  // namespace farwrite::transfer
