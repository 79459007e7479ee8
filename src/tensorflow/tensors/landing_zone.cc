#include "tensors/landing_zone.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "edges/edges.h"
#include "memory/received_buffer.h"
#include "peers/peer_process.h"
#include "server/runtime.h"
#include "stats/stats.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
#include "tensors/landing_head.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// One in use by the last step and one for the next. A loop, or a variable that keeps what it got,
// may need more.
constexpr int kFirstSlots = 2;
constexpr std::size_t kMaxSlots = 4;  // of an edge
// When memory is short, edges that nothing went over for this long give theirs back.
constexpr std::uint64_t kIdle = 10'000'000;  // us
// After memory was short, it is not asked for again before this.
constexpr std::uint64_t kPause = 1'000'000;  // us
// No tensor is larger, and with its head the sum does not overflow.
constexpr std::uint64_t kMaxSlotBytes = std::uint64_t{1} << 40;

std::uint64_t now_us() { return tsl::Env::Default()->NowMicros(); }

}  // namespace

LandingTotals& landing_totals() {
  static LandingTotals* const only = new LandingTotals;
  return *only;
}

struct LandingZone::Slot {
  Slot(std::uint32_t number, std::string name, std::uint64_t bytes, fw_region* memory)
      : id(number), edge(std::move(name)), capacity(bytes), region(memory) {
    landing_totals().slots.fetch_add(1);
    landing_totals().bytes.fetch_add(static_cast<std::int64_t>(bytes));
  }
  // The peer's access ends first, which may wait for it while the channel is open: see let_go().
  ~Slot() {
    landing_totals().slots.fetch_sub(1);
    landing_totals().bytes.fetch_sub(static_cast<std::int64_t>(capacity));
    if (Runtime::current() != nullptr) fw_region_release(region);  // not in a forked child
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  const char* head() const { return static_cast<const char*>(fw_region_data(region)); }
  char* tensor() const { return static_cast<char*>(fw_region_data(region)) + kLandingHeadBytes; }

  const std::uint32_t id;
  const std::string edge;
  const std::uint64_t capacity;
  fw_region* const region;
  // Under the zone's mutex.
  std::uint64_t generation = 1;
  bool held = false;         // by a tensor; otherwise granted
  bool used = false;         // something has landed in it
  bool retired = false;      // not granted again
  std::uint64_t landed = 0;  // fw_fork_stamp() of the last landing
};

// A slot as a tensor's buffer. The memory is this process' own and nobody else writes it now, so
// kernels may write into it and take it for their output.
class LandingZone::Buffer final : public ReceivedBuffer {
 public:
  Buffer(std::shared_ptr<LandingZone> zone, SlotRef slot, std::size_t bytes)
      : ReceivedBuffer(slot->tensor(), bytes, true),
        zone_(std::move(zone)),
        slot_(std::move(slot)) {
    landing_totals().held.fetch_add(1);
  }
  ~Buffer() override {
    landing_totals().held.fetch_sub(1);
    zone_->give_back(std::move(slot_));
  }
  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<std::int64_t>(size()));
    proto->set_allocator_name("farwrite_slot");
  }

 private:
  const std::shared_ptr<LandingZone> zone_;
  SlotRef slot_;
};

// Their memory may have to wait for the peer: not on a thread of a step.
void LandingZone::let_go(std::vector<SlotRef> slots) {
  tsl::Env::Default()->SchedClosure([gone = std::move(slots)]() mutable { gone.clear(); });
}

void LandingZone::wanted(const std::shared_ptr<PeerProcess>& process, std::string_view edge,
                         std::uint64_t bytes) {
  const std::string name(edge);
  if (bytes > kMaxSlotBytes) return;
  int count = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_ || opening_.count(name) != 0 || now_us() < not_before_) return;
    process_ = process;
    std::size_t fit = 0;
    const auto known = edges_.find(name);
    if (known != edges_.end()) {
      for (const SlotRef& slot : known->second.slots) {
        if (slot->retired || slot->capacity < bytes) continue;
        if (!slot->used) return;  // the peer may not even know of it yet
        ++fit;
      }
    }
    if (fit >= kMaxSlots) return;
    count = fit == 0 ? kFirstSlots : 1;
    opening_.insert(name);
  }
  process->schedule([self = shared_from_this(), process, name, bytes, count] {
    self->open_slots(process, name, bytes, count);
  });
}

void LandingZone::open_slots(const std::shared_ptr<PeerProcess>& process, const std::string& edge,
                             std::uint64_t bytes, int count) {
  std::vector<std::uint32_t> outgrown;
  for (int i = 0; i < count; ++i) {
    fw_region* region = nullptr;
    const absl::Status allocated = process->allocate(kLandingHeadBytes + bytes, &region);
    if (!allocated.ok()) {
      plugin::count(stats().slots_refused);
      VLOG(1) << "Farwrite: no slot of " << bytes << " bytes: " << allocated.message();
      withdraw_idle(*process);
      break;
    }
    SlotRef slot;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      slot = std::make_shared<Slot>(++last_slot_, edge, bytes, region);
      if (closed_) return;  // and the slot goes
      EdgeSlots& known = edges_[edge];
      if (i == 0) outgrown = retire(known, bytes);
      known.slots.push_back(slot);
      known.last_used = now_us();
      slots_[slot->id] = slot;
    }
    plugin::count(stats().slots_opened);
    process->slot_opened(edge, slot->id, slot->generation, bytes, region);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    opening_.erase(edge);
  }
  if (!outgrown.empty()) process->withdraw_slots(outgrown);
}

// Under mutex_. Slots too small for what the edge brings now, or all of them.
std::vector<std::uint32_t> LandingZone::retire(EdgeSlots& edge, std::uint64_t below) {
  std::vector<std::uint32_t> retired;
  for (const SlotRef& slot : edge.slots) {
    if (slot->retired || slot->capacity >= below) continue;
    slot->retired = true;
    retired.push_back(slot->id);
  }
  return retired;
}

void LandingZone::withdraw_idle(PeerProcess& process) {
  std::vector<std::uint32_t> idle;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::uint64_t now = now_us();
    not_before_ = now + kPause;
    for (auto& [name, edge] : edges_) {
      if (now - edge.last_used < kIdle) continue;
      const std::vector<std::uint32_t> retired = retire(edge, UINT64_MAX);
      idle.insert(idle.end(), retired.begin(), retired.end());
    }
  }
  if (!idle.empty()) process.withdraw_slots(idle);
}

const char* LandingZone::landed(std::uint32_t id, StepId* step, std::string* key,
                                Arrival* arrival) {
  LandingHeadBytes bytes;
  LandingHead head;
  SlotRef slot;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return "of a channel that has ended";
    const auto found = slots_.find(id);
    if (found == slots_.end() || found->second->held) return "that is not granted to it";
    slot = found->second;
    std::memcpy(bytes.data(), slot->head(), bytes.size());
    if (!decode(bytes, &head) || head.slot != id || head.generation != slot->generation ||
        head.tensor_bytes > slot->capacity) {
      return "with a malformed head";
    }
    slot->held = slot->used = true;
    slot->landed = fw_fork_stamp();
    edges_[slot->edge].last_used = now_us();
  }
  auto* const buffer = new Buffer(shared_from_this(), slot, head.tensor_bytes);
  arrival->tensor = tf::Tensor(head.dtype, head.shape, buffer);
  buffer->Unref();                    // the tensor has its own reference
  arrival->kind = PushKind::kInline;  // it is here, like an inline one
  arrival->way = "landed";
  arrival->sent = head.sent;
  arrival->sender = head.sender;
  arrival->start = head.start;
  arrival->dtype = head.dtype;
  arrival->shape = head.shape;
  arrival->tensor_bytes = head.tensor_bytes;
  step->receiver = head.receiver;
  step->step = head.step;
  *key = join_key(slot->edge, head.instance);
  return nullptr;
}

void LandingZone::give_back(SlotRef slot) {
  if (Runtime::current() == nullptr) return;  // a forked child
  std::shared_ptr<PeerProcess> process;
  std::uint64_t generation = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    slot->held = false;
    if (closed_) return;
    process = process_.lock();
    // A forked child that reads the tensor must not see another one land in it. The memory is held
    // back below (Arena), and the edge gets another slot.
    const bool read_by_child = fw_forked_child_may_read(slot->landed) != 0;
    if (slot->retired || read_by_child) {
      forget(slot);
      if (!slot->retired && process != nullptr) {
        process->schedule([process, id = slot->id] { process->withdraw_slots({id}); });
      }
      let_go({std::move(slot)});
      return;
    }
    generation = ++slot->generation;
  }
  if (process != nullptr) process->slot_freed(slot->id, generation);
}

// Under mutex_.
void LandingZone::forget(const SlotRef& slot) {
  slots_.erase(slot->id);
  const auto edge = edges_.find(slot->edge);
  if (edge == edges_.end()) return;
  std::vector<SlotRef>& slots = edge->second.slots;
  slots.erase(std::remove(slots.begin(), slots.end(), slot), slots.end());
  if (slots.empty()) edges_.erase(edge);
}

void LandingZone::given_up(const std::vector<std::uint32_t>& ids) {
  std::vector<SlotRef> gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::uint32_t id : ids) {
    const auto found = slots_.find(id);
    if (found == slots_.end() || found->second->held) continue;
    gone.push_back(found->second);
    forget(gone.back());
  }
  let_go(std::move(gone));
}

void LandingZone::close() {
  std::unordered_map<std::uint32_t, SlotRef> gone;  // after the lock
  std::unordered_map<std::string, EdgeSlots> edges;
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  gone.swap(slots_);
  edges.swap(edges_);
}

}  // namespace farwrite::plugin
