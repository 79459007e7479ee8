#include "device/fabrics.h"

#include <algorithm>
#include <utility>

#include "core/log.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/tcp/tcp_fabric.h"
#ifdef FARWRITE_HAVE_VERBS
#include "fabric/verbs/verbs_fabric.h"
#endif

namespace farwrite::fabric {
namespace {

using Made = Result<std::unique_ptr<Fabric>>;
// The ways to be reached by a fabric, the best first; or why there is none.
using Addresses = Result<std::vector<std::string>>;

Made make_shm(core::EventLoop& loop, const DeviceOptions& options) {
  return shm::ShmFabric::create(loop, options.handshake_timeout, options.memory_idle_time);
}

Addresses describe_shm(const DeviceOptions& /*options*/) {
  FARWRITE_RETURN_IF_ERROR(shm::ShmFabric::check_kernel());
  return std::vector<std::string>{"peers of the same user on this host"};
}

Made make_tcp(core::EventLoop& loop, const DeviceOptions& options) {
  return tcp::TcpFabric::create(loop, tcp::FabricOptions::of(options));
}

Addresses describe_tcp(const DeviceOptions& /*options*/) {
  return std::vector<std::string>{"peers anywhere; for those that shm cannot reach"};
}

#ifdef FARWRITE_HAVE_VERBS
Made make_verbs(core::EventLoop& loop, const DeviceOptions& options) {
  return verbs::VerbsFabric::create(loop, verbs::FabricOptions::of(options));
}

Addresses describe_verbs(const DeviceOptions& options) {
  return verbs::VerbsFabric::describe(options.verbs);
}
#else
Status not_built() {
  return Status::error(StatusCode::kUnavailable, {"use verbs"},
                       "this build was made without libibverbs-dev and librdmacm-dev",
                       "install them and build again, or install Farwrite's wheel");
}

Made make_verbs(core::EventLoop& /*loop*/, const DeviceOptions& /*options*/) { return not_built(); }

Addresses describe_verbs(const DeviceOptions& /*options*/) { return not_built(); }
#endif

// Those of the library, best first, then those that are registered.
std::vector<FabricEntry>& entries() {
  // Threads may open devices until the process ends.
  static auto* const all = new std::vector<FabricEntry>{
      {FabricKind::kShm, false, make_shm, describe_shm},
      {FabricKind::kTcp, false, make_tcp, describe_tcp},
      {FabricKind::kVerbs, true, make_verbs, describe_verbs},
  };
  return *all;
}

const FabricEntry* find(FabricKind kind) {
  const auto entry = std::find_if(entries().begin(), entries().end(),
                                  [&](const FabricEntry& one) { return one.kind == kind; });
  return entry == entries().end() ? nullptr : &*entry;
}

}  // namespace

FabricRegistration::FabricRegistration(FabricEntry entry) : kind_(entry.kind) {
  entries().push_back(std::move(entry));
}

FabricRegistration::~FabricRegistration() {
  std::erase_if(entries(), [&](const FabricEntry& one) { return one.kind == kind_; });
}

Result<std::unique_ptr<Fabric>> make_fabric(FabricKind kind, core::EventLoop& loop,
                                            const DeviceOptions& options) {
  const FabricEntry* const entry = find(kind);
  if (entry != nullptr) return entry->make(loop, options);
  return Status::error(StatusCode::kUnsupported, {"open a device"},
                       "this build has no fabric " + std::string(to_string(kind)),
                       "use shm, verbs or tcp; `farwrite info` lists the available fabrics");
}

Result<std::vector<std::unique_ptr<Fabric>>> make_fabrics(core::EventLoop& loop,
                                                          const DeviceOptions& options) {
  std::vector<std::unique_ptr<Fabric>> fabrics;
  for (const FabricKind kind : options.fabrics) {
    auto fabric = make_fabric(kind, loop, options);
    if (fabric.ok()) {
      fabrics.push_back(*std::move(fabric));
      continue;
    }
    const FabricEntry* const entry = find(kind);
    const bool forced = options.fabrics.size() == 1;
    if (forced || entry == nullptr || !entry->needs_hardware) return fabric.status();
    // Most machines have none; `farwrite info` says why.
    core::log(core::LogLevel::kInfo,
              std::string(to_string(kind)) + " is off: " + fabric.status().message());
  }
  return fabrics;
}

std::vector<FabricReport> describe_fabrics(const DeviceOptions& options) {
  std::vector<FabricReport> reports;
  for (const FabricEntry& entry : entries()) {
    FabricReport report;
    report.kind = entry.kind;
    auto addresses = entry.describe(options);
    report.usable = addresses.ok();
    if (addresses.ok()) {
      report.reason = std::move(addresses->front());
      report.more.assign(std::next(addresses->begin()), addresses->end());
    } else {
      report.reason = addresses.status().message();
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace farwrite::fabric
