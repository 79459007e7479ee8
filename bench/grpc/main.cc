// A server, a worker or both: its argument is a message Options as JSON, and its standard input has
// orders.
//
//   connect ADDRESS...    connect to the servers and call each once
//   open COUNT ADDRESS    open connections one by one, each with one call, and keep them
//   call                  call the server once over each kept connection
//   start                 begin to count processor time
//   measure WARM SECONDS  call the servers in a closed loop
//   end                   report and exit
//
// Every order has one line of JSON as its answer; the first line says where the process listens.
// What fails, also an input that ends before the order to end, is a sentence on stderr and
// status 1.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "client.h"
#include "fail.h"
#include "payload.h"
#include "server.h"

namespace bench = farwrite::bench;
namespace json = google::protobuf::util;

namespace {

// Keeps freed memory of large payloads for the next one.
void tune_malloc() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the maximum of glibc
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 64 << 20);
}

// The processor time of this process so far.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// The largest resident memory so far. getrusage also counts the program that started this one.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  }
  return 0;
}

void send(const google::protobuf::Message& answer) {
  json::JsonPrintOptions all;
  all.always_print_primitive_fields = true;
  all.preserve_proto_field_names = true;
  std::string line;
  if (!json::MessageToJsonString(answer, &line, all).ok()) fail("cannot write an answer");
  std::cout << line << std::endl;
}

template <typename Message>
void follow_orders(const bench::Options& options) {
  Client<Message> client(options);
  std::optional<Server<Message>> server;
  bench::Started started;
  if (!options.listen().empty()) started.set_address(server.emplace(options).address());
  started.set_pid(::getpid());
  started.set_grpc(grpc::Version());
  send(started);
  double cpu_before = 0;
  std::uint64_t calls_before = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string order;
    words >> order;
    if (order == "connect") {
      client.connect({std::istream_iterator<std::string>(words), {}});
      send(bench::Done());
    } else if (order == "open") {
      std::size_t count = 0;
      std::string address;
      words >> count >> address;
      send(client.open(address, count));
    } else if (order == "call") {
      client.call_kept();
      send(bench::Done());
    } else if (order == "start") {
      cpu_before = cpu_seconds();
      calls_before = client.calls();
      send(bench::Done());
    } else if (order == "measure") {
      double warm_up = 0;
      double seconds = 0;
      words >> warm_up >> seconds;
      using Seconds = typename Client<Message>::Seconds;
      send(client.measure(Seconds(warm_up), Seconds(seconds)));
    } else if (order == "end") {
      bench::Ended ended;
      ended.set_cpu_seconds(cpu_seconds() - cpu_before);
      ended.set_calls(static_cast<double>(client.calls() - calls_before));
      ended.set_wrong(server ? static_cast<double>(server->wrong()) : 0);
      ended.set_peak_bytes(peak_bytes());
      send(ended);
      return;
    } else {
      fail("unknown order '" + line + "'");
    }
  }
  fail("the input ended before the order to end");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options;
  const auto parsed = json::JsonStringToMessage(argc == 2 ? argv[1] : "", &options);
  if (!parsed.ok() || options.buffers().empty()) {
    fail("the only argument must be a message Options of payloads.proto with buffers, as JSON; " +
         parsed.ToString());
  }
  tune_malloc();
  if (options.serialized()) {
    follow_orders<Serialized>(options);
  } else {
    follow_orders<Plain>(options);
  }
  return 0;
}
