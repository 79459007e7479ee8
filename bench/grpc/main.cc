// A server, a worker or both, which follows the orders on its standard input.
//
//   connect ADDRESS...    connect to the servers and call each once
//   open COUNT ADDRESS    open connections one by one, each with one call, and keep them
//   call                  call the server once over each kept connection
//   start                 begin to count processor time
//   measure WARM SECONDS  call the servers in a closed loop
//   end                   report and exit
//
// Every order has one line of JSON as its answer; the first line says where the process listens.
// At the end of its input the process exits. What fails is a sentence on stderr and status 1.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "connector.h"
#include "message.h"
#include "options.h"
#include "server.h"
#include "tuning.h"
#include "worker.h"

namespace {

// The processor time of this process so far.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// The largest resident memory so far. getrusage also counts the program that started this one.
long peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6)) * 1024;
  }
  return 0;
}

// A line of JSON on standard output.
class Answer {
 public:
  Answer& add(const char* name, const std::string& text) {
    return raw(name) << '"' << text << '"', *this;
  }
  Answer& add(const char* name, const std::vector<double>& values) {
    std::ostream& text = raw(name);
    for (std::size_t at = 0; at < values.size(); ++at) text << (at == 0 ? "[" : ", ") << values[at];
    return text << (values.empty() ? "[]" : "]"), *this;
  }
  template <typename Number>
  Answer& add(const char* name, Number value) {
    return raw(name) << value, *this;
  }
  void send() { std::cout << text_.str() << '}' << std::endl; }

 private:
  std::ostream& raw(const char* name) {
    const bool is_first = text_.tellp() == std::streampos(0);
    return text_ << (is_first ? "{" : ", ") << '"' << name << "\": " << std::setprecision(12);
  }

  std::ostringstream text_;
};

// The process. Every order returns "", or what failed.
template <typename Message>
class Process {
 public:
  explicit Process(const Options& options) : worker_(options), connector_(options) {
    if (!options.listen.empty()) server_.emplace(options, worker_.payload_bytes());
  }

  std::string greet(const std::string& listen) {
    const std::string address = server_ ? server_->start() : "";
    if (server_ && address.empty()) return "cannot listen at " + listen;
    Answer()
        .add("address", address)
        .add("pid", ::getpid())
        .add("payload_bytes", worker_.payload_bytes())
        .add("grpc", grpc::Version())
        .send();
    return "";
  }

  std::string connect(std::istream& words) {
    const std::vector<std::string> addresses{std::istream_iterator<std::string>(words), {}};
    std::string problem = worker_.connect(addresses);
    if (problem.empty()) Answer().add("connected", addresses.size()).send();
    return problem;
  }

  std::string open(std::istream& words) {
    std::size_t count = 0;
    std::string address;
    words >> count >> address;
    std::vector<double> microseconds;
    std::string problem = connector_.open(address, count, microseconds);
    if (problem.empty()) Answer().add("microseconds", microseconds).send();
    return problem;
  }

  std::string call() {
    std::string problem = connector_.call_all();
    if (problem.empty()) Answer().add("called", 1).send();
    return problem;
  }

  void start() {
    cpu_before_ = cpu_seconds();
    calls_before_ = worker_.calls();
    Answer().add("started", 1).send();
  }

  std::string measure(std::istream& words) {
    double warm_up = 0;
    double seconds = 0;
    words >> warm_up >> seconds;
    Measured measured;
    std::string problem = worker_.measure(std::chrono::duration<double>(warm_up),
                                          std::chrono::duration<double>(seconds), measured);
    if (problem.empty()) {
      Answer()
          .add("calls", measured.calls)
          .add("seconds", measured.seconds)
          .add("p50_us", measured.p50_us)
          .add("p99_us", measured.p99_us)
          .send();
    }
    return problem;
  }

  void end() {
    Answer()
        .add("cpu_seconds", cpu_seconds() - cpu_before_)
        .add("calls", worker_.calls() - calls_before_)
        .add("served", server_ ? server_->served() : 0)
        .add("wrong", server_ ? server_->wrong() : 0)
        .add("peak_bytes", peak_bytes())
        .send();
  }

 private:
  Worker<Message> worker_;
  Connector<Message> connector_;
  std::optional<Server<Message>> server_;
  double cpu_before_ = 0;
  std::uint64_t calls_before_ = 0;
};

template <typename Message>
std::string follow_orders(const Options& options) {
  Process<Message> process(options);
  std::string problem = process.greet(options.listen);
  for (std::string line; problem.empty() && std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string order;
    words >> order;
    if (order == "connect") {
      problem = process.connect(words);
    } else if (order == "open") {
      problem = process.open(words);
    } else if (order == "call") {
      problem = process.call();
    } else if (order == "start") {
      process.start();
    } else if (order == "measure") {
      problem = process.measure(words);
    } else if (order == "end") {
      process.end();
      return "";
    } else {
      problem = "unknown order '" + line + "'";
    }
  }
  return problem.empty() ? "the input ended before the order to end" : problem;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) return 2;
  tune_malloc();
  const std::string problem =
      options->serialized ? follow_orders<Serialized>(*options) : follow_orders<Plain>(*options);
  if (problem.empty()) return 0;
  std::fprintf(stderr, "grpc_payloads: %s\n", problem.c_str());
  return 1;
}
