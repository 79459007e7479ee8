// Records that a peer's device layer sends through a lane.
#include <algorithm>

#include "device/channel_records.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using device::LendRecord;
using device::ReturnRecord;

void run_lend(ByteView bytes) {
  auto lend = LendRecord::from_bytes(bytes);
  if (!lend.ok()) return require_refusal(lend.status());
  require(bytes.size >= LendRecord::kHeaderBytes, "the message starts inside the record");
  require(lend->lease != 0, "what is lent has a lease");
  const ByteView message(bytes.data + LendRecord::kHeaderBytes,
                         bytes.size - LendRecord::kHeaderBytes);
  Bytes encoded;
  lend->write(message, encoded);
  require(encoded.size() == bytes.size, "header and message take what they took");
  auto again = LendRecord::from_bytes(view_of(encoded));
  require(again.ok(), "what we encode can be decoded");
  require(again->lease == lend->lease && again->key == lend->key && again->offset == lend->offset &&
              again->length == lend->length,
          "decoding what we encoded changes nothing");
  require(std::equal(encoded.begin() + LendRecord::kHeaderBytes, encoded.end(), message.data),
          "the message is what follows the header");
}

void run_return(ByteView bytes) {
  auto returned = ReturnRecord::from_bytes(bytes);
  if (!returned.ok()) return require_refusal(returned.status());
  require(!returned->leases.empty() && returned->leases.size() <= ReturnRecord::kMaxLeases,
          "the leases of one record are bounded");
  Bytes encoded;
  returned->write(encoded);
  require(encoded.size() == bytes.size, "a record is all leases");
  auto again = ReturnRecord::from_bytes(view_of(encoded));
  require(again.ok() && again->leases == returned->leases,
          "decoding what we encoded changes nothing");
}

void run(ByteView input) {
  Script script(input);
  return script.u8() % 2 == 0 ? run_lend(script.rest()) : run_return(script.rest());
}

Bytes lend_seed(const LendRecord& lend, const Bytes& message) {
  Bytes record;
  lend.write(view_of(message), record);
  return concatenated({{std::byte{0}}, record});
}

Bytes return_seed(const ReturnRecord& returned) {
  Bytes record;
  returned.write(record);
  return concatenated({{std::byte{1}}, record});
}

Seeds seeds() {
  return {{"lend", lend_seed({1, 2, 64, 4096}, {})},
          {"lend-with-message", lend_seed({1, 2, 0, 8}, Bytes(20, std::byte{'m'}))},
          {"lend-without-lease", lend_seed({0, 2, 0, 8}, {})},
          {"return-one", return_seed({{1}})},
          {"return-most", return_seed({std::vector<std::uint64_t>(ReturnRecord::kMaxLeases, 3)})},
          {"return-none", return_seed({})}};
}

[[maybe_unused]] const bool kAdded = add_target({"channel_records", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
