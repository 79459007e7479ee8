#include "adversary_script.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "memory/segment.h"
#include "simulated/random.h"
#include "simulated/simulated_fabric.h"
#include "simulated/simulated_kind.h"

namespace farwrite::fabric {
namespace {

constexpr std::uint32_t kLanes = 3;
constexpr std::uint64_t kSlotBytes = 64;
constexpr std::uint64_t kSlots = 64;  // each written once at most
constexpr int kTurns = 120;
constexpr int kPatience = 200'000;  // polls; a run that needs more hangs

std::shared_ptr<memory::Segment> make_segment(memory::SegmentUse use) {
  memory::SegmentOptions options;
  options.bytes = kSlots * kSlotBytes;
  options.use = use;
  options.prefault = false;
  options.huge_pages = memory::HugePages::kOff;
  auto segment = memory::Segment::create(options);
  return std::move(segment).value();
}

// Never 0, so that a byte which has not landed is told apart.
std::byte pattern(std::uint32_t tag, std::uint64_t index) {
  return static_cast<std::byte>((tag * 37 + index * 11) % 255 + 1);
}

struct Post {
  OperationKind kind = OperationKind::kWrite;
  std::uint32_t tag = 0;
  std::uint32_t lane = 0;
  std::uint64_t slot = 0;
  std::vector<std::byte> bytes;  // source of a write or message, destination of a read
  bool notifies = false;
  bool source_reused = false;
  std::optional<Completion> completion;
};

// One side: its link, the memory it lets the other write, what it posted and what it took.
class Party final : public EventSink, public LinkObserver {
 public:
  Party(ScriptResult& result, std::string name)
      : result_(result),
        name_(std::move(name)),
        landing_(make_segment(memory::SegmentUse::kLanding)),
        shown_(make_segment(memory::SegmentUse::kExport)) {
    std::memset(shown_->base(), 0x5a, shown_->bytes());
  }

  void attach(SimulatedNetwork& network, bool connecting, const std::string& peer_address) {
    fabric_ = std::make_unique<SimulatedFabric>(network);
    export_key_ = fabric_->register_segment(shown_).value();
    AttachRequest request;
    request.connecting = connecting;
    request.peer_name = connecting ? "acceptor" : "connector";
    request.peer_address = peer_address;
    request.lanes = kLanes;
    request.observer = this;
    link_ = fabric_->attach(request).value();
    grant_key_ = link_->grant(landing_, 0, kSlots * kSlotBytes, 1).value();
  }

  void open_peer(Party& peer) {
    peer_ = &peer;
    target_ = import(peer.grant_key_);
    source_ = import(peer.export_key_);
  }

  void act(Random& random) {
    if (link_ == nullptr) return;
    Post post;
    post.tag = static_cast<std::uint32_t>(posts_.size());
    post.lane = static_cast<std::uint32_t>(random.below(kLanes));
    const std::uint64_t dice = random.below(10);
    if (dice < 5) {
      if (next_slot_ == kSlots) return;
      post.slot = next_slot_++;
      post.notifies = dice < 4;
      post.bytes.resize(1 + random.below(kSlotBytes));
      fill(post);
    } else if (dice < 6) {
      post.kind = OperationKind::kNotify;
      post.notifies = true;
    } else if (dice < 7) {
      post.kind = OperationKind::kMessage;
      post.notifies = true;
      post.bytes.resize(random.below(kSlotBytes));
      fill(post);
    } else if (dice < 8) {
      post.kind = OperationKind::kRead;
      post.bytes.resize(1 + random.below(4 * kSlotBytes));
    } else {
      post.kind = OperationKind::kFlush;
    }
    posts_.push_back(std::make_unique<Post>(std::move(post)));
    start(*posts_.back());
  }

  void poll(Random& random) {
    if (link_ != nullptr) link_->lane(static_cast<std::uint32_t>(random.below(kLanes))).poll(*this);
    check_completions();
    peer_->check_completions();
    if (revoked_.empty()) return;
    if (std::memcmp(revoked_.data(), landing_->base(), revoked_.size()) != 0) {
      report(Violation::kLateByte, "a byte landed after revoke() returned");
      revoked_.clear();
    }
  }

  void revoke() {
    if (!link_->revoke(grant_key_, 1, core::Deadline::never()).ok()) std::abort();
    has_revoked_ = true;
    revoked_.assign(landing_->base(), landing_->base() + landing_->bytes());
  }
  void end_link() { link_.reset(); }

  bool idle() const {
    return std::all_of(posts_.begin(), posts_.end(), [&](const auto& post) {
      const bool shown = !post->notifies || peer_->taken_.count(post->tag) != 0;
      return post->completion->settled() && shown;
    });
  }
  bool all_ended() const {
    return std::all_of(posts_.begin(), posts_.end(),
                       [](const auto& post) { return post->completion->done(); });
  }
  bool peer_died() const { return deaths_ > 0; }

  void check_all_arrived() {
    for (const auto& post : posts_) {
      if (post->notifies && peer_->taken_.count(post->tag) == 0) {
        report(Violation::kMissing, "tag " + std::to_string(post->tag) + " never came");
      }
      if (post->kind == OperationKind::kWrite && !peer_->landed(*post)) {
        report(Violation::kSourceInUse,
               "write " + std::to_string(post->tag) + " brought other bytes");
      }
    }
  }

  void report(Violation violation, const std::string& text) {
    result_.violations.insert(violation);
    result_.details.push_back(name_ + ": " + text);
  }

 private:
  void on_notification(Notification&& notification) override {
    const std::uint32_t tag = notification.tag;
    const std::string text = "tag " + std::to_string(tag);
    if (tag >= peer_->posts_.size() || !peer_->posts_[tag]->notifies) {
      return report(Violation::kMissing, text + " was never raised");
    }
    const Post& post = *peer_->posts_[tag];
    if (!taken_.insert(tag).second) report(Violation::kTwice, text + " came twice");
    // Tags grow in the order of posting, so within a lane they must grow here, too.
    std::optional<std::uint32_t>& last = last_of_lane_[notification.lane];
    if (last.has_value() && tag < *last) report(Violation::kLaneOrder, text + " came late");
    last = tag;
    if (post.kind == OperationKind::kWrite && !landed(post)) {
      report(Violation::kTorn, text + " came before its bytes");
    }
    if (post.kind == OperationKind::kMessage && !matches(post, notification.message.data())) {
      report(Violation::kTorn, text + " brought other bytes");
    }
  }
  void on_peer_dead(const Status&) override { ++deaths_; }
  void on_link_error(const Status&) override {}

  std::shared_ptr<RemoteWindow> import(std::uint64_t key) {
    RegionDescriptor descriptor;
    descriptor.length = kSlots * kSlotBytes;
    descriptor.keys = {{kSimulated, key}};
    return link_->import(descriptor, core::Deadline::never()).value();
  }

  static void fill(Post& post) {
    for (std::uint64_t i = 0; i < post.bytes.size(); ++i) post.bytes[i] = pattern(post.tag, i);
  }
  static bool matches(const Post& post, const std::byte* bytes) {
    for (std::uint64_t i = 0; i < post.bytes.size(); ++i) {
      if (bytes[i] != pattern(post.tag, i)) return false;
    }
    return true;
  }
  // Of a write that the peer posted: whether all of it is here.
  bool landed(const Post& post) const {
    return matches(post, landing_->base() + post.slot * kSlotBytes);
  }

  void start(Post& post) {
    Operation operation;
    operation.kind = post.kind;
    operation.tag = post.tag;
    operation.notify = post.kind == OperationKind::kWrite && post.notifies;
    if (post.kind == OperationKind::kRead) {
      operation.destination = MutableByteView(post.bytes.data(), post.bytes.size());
      operation.window = source_;
    } else {
      operation.source = ByteView(post.bytes.data(), post.bytes.size());
      operation.window = target_;
      operation.offset = post.slot * kSlotBytes;
    }
    post.completion = link_->lane(post.lane).post(operation);
  }

  void check_completions() {
    for (const auto& post : posts_) {
      if (post->source_reused || !post->completion->done()) continue;
      post->source_reused = true;
      const bool ok = post->completion->wait().ok();
      if (post->kind == OperationKind::kFlush && ok) check_flushed(post->tag);
      if (post->kind == OperationKind::kRead) {
        const auto differs = [](std::byte byte) { return byte != std::byte{0x5a}; };
        if (ok && std::any_of(post->bytes.begin(), post->bytes.end(), differs)) {
          report(Violation::kWrongRead, "a read brought wrong bytes");
        }
      } else if (post->completion->settled()) {
        // The source may be reused: the code that still reads it brings these bytes to the target.
        std::fill(post->bytes.begin(), post->bytes.end(), std::byte{0});
      }
    }
  }
  void check_flushed(std::uint32_t before) {
    if (peer_->has_revoked_) return;  // then refused writes are no surprise
    for (const auto& post : posts_) {
      if (post->tag < before && post->kind == OperationKind::kWrite && !peer_->landed(*post)) {
        report(Violation::kEarlyFlush, "a flush ended before write " + std::to_string(post->tag));
      }
    }
  }

  ScriptResult& result_;
  const std::string name_;
  const std::shared_ptr<memory::Segment> landing_;
  const std::shared_ptr<memory::Segment> shown_;
  std::unique_ptr<SimulatedFabric> fabric_;
  std::uint64_t export_key_ = 0;
  std::uint64_t grant_key_ = 0;
  std::shared_ptr<RemoteWindow> target_;
  std::shared_ptr<RemoteWindow> source_;
  Party* peer_ = nullptr;
  std::uint64_t next_slot_ = 0;
  std::vector<std::unique_ptr<Post>> posts_;  // by tag
  std::set<std::uint32_t> taken_;
  std::array<std::optional<std::uint32_t>, kLanes> last_of_lane_;
  std::vector<std::byte> revoked_;  // the landing memory as it was then
  bool has_revoked_ = false;
  int deaths_ = 0;
  std::unique_ptr<Link> link_;  // the first to go: it may still look at everything above
};

}  // namespace

ScriptResult run_script(std::uint64_t seed, Lowering lowering, Ending ending) {
  ScriptResult result;
  Random random(seed);
  SimulatedOptions options;
  options.seed = seed;
  options.lowering = lowering;
  options.max_chunk_bytes = std::uint64_t{1} << random.below(7);
  options.delay = 0.1 * static_cast<double>(random.below(8));
  options.drop = 0.1 * static_cast<double>(random.below(6));
  options.duplicate = 0.1 * static_cast<double>(random.below(6));
  options.early_completion = 0.25 * static_cast<double>(random.below(5));
  options.deliveries_per_poll = 1;
  SimulatedNetwork network(options);

  std::array<Party, 2> parties{Party(result, "acceptor"), Party(result, "connector")};
  parties[0].attach(network, false, "");
  parties[1].attach(network, true, network.addresses().front());
  for (const int i : {0, 1}) parties[i].open_peer(parties[1 - i]);

  for (int turn = 0; turn < kTurns; ++turn) {
    if (turn == kTurns / 2 && ending == Ending::kKilled) {
      network.kill(network.addresses().front());
      parties[0].revoke();  // a dead process's memory: nothing may change in it
    }
    if (turn == kTurns / 2 && (ending == Ending::kRevoked || ending == Ending::kClosed)) {
      parties[0].revoke();
      if (ending == Ending::kClosed) parties[0].end_link();
    }
    if (random.chance(0.4)) parties[random.below(2)].act(random);
    parties[random.below(2)].poll(random);
  }

  const auto over = [&] {
    if (ending == Ending::kDrained) return parties[0].idle() && parties[1].idle();
    return parties[0].all_ended() && parties[1].all_ended();
  };
  for (int i = 0; i < kPatience && !over(); ++i) parties[random.below(2)].poll(random);
  for (Party& party : parties) {
    for (int i = 0; i < 100; ++i) party.poll(random);  // duplicates that are still on the wire
    if (!party.all_ended()) party.report(Violation::kNeverEnding, "an operation never ended");
    if (ending == Ending::kDrained) party.check_all_arrived();
  }
  if (ending == Ending::kKilled && !parties[1].peer_died()) {
    parties[1].report(Violation::kMissing, "nobody told that the peer is dead");
  }
  result.trace = network.trace();
  return result;
}

}  // namespace farwrite::fabric
