// Moves bytes between two processes by UCX, in the loops of `farwrite bench p2p`.
//
//   ucx_p2p POOL_BYTES
//
// The process receives; it forks the one that sends. Each line of standard input is an order, with
// one line of JSON as its answer, and the first line says which UCX this is:
//
//   tag|putflag latency|bandwidth SIZE TRANSFERS WINDOW SEED
//
// At the end of its input it ends. What fails is a sentence on stderr and status 1.
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "peer.h"
#include "stamps.h"

namespace farwrite::bench::ucx {
namespace {

void greet() {
  Dl_info where{};
  ::dladdr(reinterpret_cast<const void*>(&ucp_get_version_string), &where);
  std::cout << R"({"version": ")" << ucp_get_version_string() << R"(", "library": ")"
            << (where.dli_fname == nullptr ? "" : where.dli_fname) << "\"}" << std::endl;
}

bool read_order(Order& order) {
  std::string line, way, kind;
  if (!std::getline(std::cin, line)) return false;
  std::istringstream words(line);
  words >> way >> kind >> order.size >> order.transfers >> order.window >> order.seed;
  const bool known = way == "tag" || way == "putflag";
  if (words.fail() || !known || (kind != "latency" && kind != "bandwidth")) {
    throw std::runtime_error("no order: " + line);
  }
  order.way = way == "tag" ? Way::kTag : Way::kPutFlag;
  order.latency = kind == "latency";
  if (order.size < 8 || order.size % 8 != 0 || (order.latency && order.transfers > kMaxSamples)) {
    throw std::runtime_error("an order that cannot be measured: " + line);
  }
  return true;
}

void answer(const Shared& shared) {
  const Figures& receiver = shared.figures[0];
  const Figures& sender = shared.figures[1];
  const Figures& timed = receiver.samples > 0 ? receiver : sender;
  std::ostringstream text;
  text.precision(12);
  text << R"({"seconds": )" << sender.seconds << R"(, "cpu_seconds": )"
       << receiver.cpu_seconds + sender.cpu_seconds << R"(, "bad": )" << receiver.bad + sender.bad
       << R"(, "samples_us": [)";
  for (std::uint32_t i = 0; i < timed.samples; ++i) {
    text << (i == 0 ? "" : ", ") << timed.samples_us[i];
  }
  std::cout << text.str() << "]}" << std::endl;
}

void serve_sender(Shared& shared, std::uint64_t pool_bytes) {
  Peer peer(shared, false, pool_bytes);
  fill_ramp(peer.data(), peer.data_bytes(), 0);
  shared.meet([] {});
  for (std::uint32_t orders = 0;; ++orders) {
    shared.await_order(orders);
    if (shared.finished) return;
    run(peer, shared.figures[1]);
  }
}

void serve_receiver(Shared& shared, std::uint64_t pool_bytes) {
  Peer peer(shared, true, pool_bytes);
  shared.meet([] {});
  greet();
  while (read_order(shared.order)) {
    shared.announce_order();
    run(peer, shared.figures[0]);
    answer(shared);
  }
  shared.finished = true;
  shared.announce_order();
}

int run_process(Shared& shared, bool receives, std::uint64_t pool_bytes) {
  try {
    receives ? serve_receiver(shared, pool_bytes) : serve_sender(shared, pool_bytes);
    return 0;
  } catch (const std::exception& error) {
    if (!shared.over.exchange(true)) std::cerr << "ucx_p2p: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace
}  // namespace farwrite::bench::ucx

int main(int argc, char** argv) {
  using namespace farwrite::bench::ucx;
  if (argc != 2) {
    std::cerr << "usage: ucx_p2p POOL_BYTES\n";
    return 2;
  }
  Shared& shared = Shared::make();
  const std::uint64_t pool_bytes = std::stoull(argv[1]);
  const pid_t child = ::fork();  // before UCX, which does not survive a fork
  if (child < 0) {
    std::cerr << "ucx_p2p: no second process\n";
    return 1;
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(0);
    return run_process(shared, false, pool_bytes);
  }
  const int status = run_process(shared, true, pool_bytes);
  int theirs = 0;
  ::waitpid(child, &theirs, 0);
  return status != 0 ? status : theirs == 0 ? 0 : 1;
}
