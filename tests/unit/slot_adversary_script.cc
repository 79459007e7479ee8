#include "slot_adversary_script.h"

#include <utility>

#include "slot_adversary_receiver.h"
#include "slot_adversary_sender.h"

namespace farwrite::transfer {
namespace {

using slot_adversary::kSegment;
using slot_adversary::Random;
using slot_adversary::Receiver;
using slot_adversary::Run;
using slot_adversary::Sender;

constexpr std::uint32_t kMaxSlotsHere = 4;
constexpr int kTurns = 90;
constexpr int kPatience = 20'000;

std::shared_ptr<memory::Segment> make_segment(memory::SegmentUse use) {
  memory::SegmentOptions options;
  options.bytes = kSegment;
  options.use = use;
  options.prefault = true;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
}

fabric::Lowering wire(SlotMistake mistake) {
  if (mistake == SlotMistake::kFlagBeforeData) return fabric::Lowering::kNotificationBeforeData;
  if (mistake == SlotMistake::kEarlyAcknowledgement) return fabric::Lowering::kEarlyFlush;
  return fabric::Lowering::kCorrect;
}

}  // namespace

SlotMemory::SlotMemory()
    : landing(make_segment(memory::SegmentUse::kLanding)),
      shown(make_segment(memory::SegmentUse::kExport)) {}

SlotRun run_slots(std::uint64_t seed, SlotPath path, SlotMistake mistake, SlotMemory& memory) {
  Random random(seed);
  fabric::SimulatedOptions options;
  options.seed = seed;
  options.lowering = wire(mistake);
  options.max_chunk_bytes = std::uint64_t{8} << random.below(7);
  options.delay = 0.1 * static_cast<double>(random.below(4));
  options.drop = 0.1 * static_cast<double>(random.below(4));
  options.duplicate = 0.1 * static_cast<double>(random.below(4));
  options.early_completion = 0.25 * static_cast<double>(random.below(5));
  options.deliveries_per_poll = 1;
  options.has_immediate = path == SlotPath::kImmediate;
  options.whole_message_order =
      path == SlotPath::kTailFlag && mistake != SlotMistake::kTailFlagWithoutOrder;
  fabric::SimulatedNetwork network(options);

  Run run;
  run.path = path;
  run.mistake = mistake;
  const auto slots = static_cast<std::uint32_t>(1 + random.below(kMaxSlotsHere));
  Receiver receiver(run, network, memory, slots);
  Sender sender(run, network, memory);
  sender.start(receiver.grant_key());
  receiver.start(sender.export_key(), [&](Credit credit) { sender.open(credit); });

  const auto poll = [&] {
    receiver.poll();
    receiver.look_at_flags();
    sender.poll();
    sender.reuse_sources();
  };
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::uint64_t dice = random.below(20);
    if (dice < 6) sender.send();
    if (dice >= 6 && dice < 11) receiver.receive();
    if (dice >= 11 && dice < 14) receiver.drop_view(random);
    if (dice == 14) receiver.reset();
    if (dice == 15) sender.echo_of_an_earlier_start();
    for (std::uint64_t i = random.below(6); i > 0; --i) poll();
  }
  // Everything comes to rest: all is received, all views dropped, all credits back.
  int patience = kPatience;
  const auto at_rest = [&] {
    return receiver.idle() && sender.idle() && sender.credits() == receiver.granted_now() &&
           receiver.granted_now() == slots;
  };
  while (!at_rest() && --patience > 0 && run.result.violations.empty()) {
    poll();
    receiver.receive();
    receiver.drop_view(random);
  }
  if (patience == 0) run.report(SlotViolation::kNeverEnding, "the run never came to rest");
  const SlotCounts& counts = receiver.counts();
  if (run.result.violations.empty() &&
      counts.grants != counts.landed + counts.stale + counts.malformed + counts.revoked + slots) {
    run.report(SlotViolation::kUnbalanced, "the counters do not balance");
  }
  run.result.stale = counts.stale + receiver.stale_offers();
  run.result.trace = network.trace();
  return std::move(run.result);
}

}  // namespace farwrite::transfer
