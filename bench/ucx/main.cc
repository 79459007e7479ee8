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

Order parse(const std::string& line) {
  Order order;
  std::string way, kind;
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
  return order;
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

// The receiver passes each order on to the sender, which sleeps between two orders: nothing of UCX
// takes time from what is measured in turn with it.
void serve(Shared& shared, std::uint64_t pool_bytes, bool receives, int sender) {
  Peer peer(shared, receives, pool_bytes);
  if (!receives) fill_ramp(peer.data(), peer.data_bytes(), 0);
  shared.meet([] {});
  if (receives) greet();
  for (std::string line; std::getline(std::cin, line);) {
    const Order order = parse(line);
    if (receives) ::dprintf(sender, "%s\n", line.c_str());
    run(peer, order);
    if (receives) answer(shared);
  }
}

int run_process(Shared& shared, std::uint64_t pool_bytes, bool receives, int sender) {
  try {
    serve(shared, pool_bytes, receives, sender);
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
  int orders[2] = {-1, -1};
  // Before UCX, which does not survive a fork.
  const pid_t child = ::pipe(orders) == 0 ? ::fork() : -1;
  if (child < 0) {
    std::cerr << "ucx_p2p: no second process\n";
    return 1;
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(orders[0], STDIN_FILENO);
    ::close(orders[1]);
    return run_process(shared, pool_bytes, false, -1);
  }
  ::close(orders[0]);
  ::signal(SIGPIPE, SIG_IGN);  // the sender may have failed
  const int status = run_process(shared, pool_bytes, true, orders[1]);
  ::close(orders[1]);
  int theirs = 0;
  ::waitpid(child, &theirs, 0);
  return status != 0 ? status : theirs == 0 ? 0 : 1;
}
