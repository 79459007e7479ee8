// A server, a worker or both, which follows the orders on its standard input.
//
//   connect ADDRESS...    connect to the servers and call each once
//   start                 begin to count processor time
//   measure WARM SECONDS  call the servers in a closed loop
//   end                   report and exit
//
// Every order has one line of JSON as its answer; the first line says where the process listens.
// At the end of its input the process exits. What fails is a sentence on stderr and status 1.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "message.h"
#include "options.h"
#include "server.h"
#include "tuning.h"
#include "worker.h"

namespace {

rusage usage() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used;
}

double cpu_seconds(const rusage& used) {
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int fail(const std::string& problem) {
  std::fprintf(stderr, "grpc_payloads: %s\n", problem.c_str());
  return 1;
}

template <typename... Values>
void answer(const char* format, Values... values) {
  std::printf(format, values...);
  std::printf("\n");
  std::fflush(stdout);
}

// What a process had done at the order to start.
struct Counted {
  double cpu_seconds = 0;
  std::uint64_t calls = 0;
};

template <typename Message>
int follow_orders(const Options& options) {
  Worker<Message> worker(options);
  std::optional<Server<Message>> server;
  std::string address;
  if (!options.listen.empty()) {
    server.emplace(options, worker.payload_bytes());
    address = server->start();
    if (address.empty()) return fail("cannot listen at " + options.listen);
  }
  answer(R"({"address": "%s", "pid": %d, "payload_bytes": %zu, "grpc": "%s", "tuning": "%s"})",
         address.c_str(), ::getpid(), worker.payload_bytes(), grpc::Version().c_str(),
         tuning().c_str());
  Counted before;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string order;
    words >> order;
    if (order == "connect") {
      std::vector<std::string> addresses;
      for (std::string word; words >> word;) addresses.push_back(word);
      if (std::string problem = worker.connect(addresses); !problem.empty()) return fail(problem);
      answer(R"({"connected": %zu})", addresses.size());
    } else if (order == "start") {
      before = {cpu_seconds(usage()), worker.calls()};
      answer(R"({"started": true})");
    } else if (order == "measure") {
      double warm_up = 0;
      double seconds = 0;
      words >> warm_up >> seconds;
      Measured measured;
      const std::string problem = worker.measure(std::chrono::duration<double>(warm_up),
                                                 std::chrono::duration<double>(seconds), measured);
      if (!problem.empty()) return fail(problem);
      answer(R"({"calls": %lu, "seconds": %.6f, "p50_us": %.3f, "p99_us": %.3f})", measured.calls,
             measured.seconds, measured.p50_us, measured.p99_us);
    } else if (order == "end") {
      const rusage used = usage();
      answer(
          R"({"cpu_seconds": %.6f, "calls": %lu, "calls_in_all": %lu, "served": %lu, "wrong": %lu, "peak_bytes": %ld})",
          cpu_seconds(used) - before.cpu_seconds, worker.calls() - before.calls, worker.calls(),
          server ? server->served() : 0UL, server ? server->wrong() : 0UL, used.ru_maxrss * 1024);
      return 0;
    } else {
      return fail("unknown order '" + line + "'");
    }
  }
  return fail("its input ended before the order to end");
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) return 2;
  tune_malloc();
  return options->serialized ? follow_orders<Serialized>(*options) : follow_orders<Plain>(*options);
}
