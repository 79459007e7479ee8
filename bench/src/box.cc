#include "box.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <thread>
#include <utility>

#include "clock.h"
#include "farwrite/box.h"

namespace farwrite::bench {
namespace {

constexpr std::uint64_t kWarmUp = 1000;
constexpr ErrorContext kWhere{.operation = "bench box latency", .peer = {}, .fabric = {}};

Result<std::vector<double>> time_reads(const box::Client& client, const BoxReads& plan) {
  box::SegmentSpec spec;
  spec.name = "latency";
  spec.dims = {plan.bytes / box::bytes_of(spec.type)};
  spec.temporary = true;
  auto segment = client.create(spec);
  if (!segment.ok()) return segment.status();
  std::vector<std::byte> memory(plan.bytes);
  const MutableByteView out(memory.data(), memory.size());
  std::vector<double> microseconds;
  microseconds.reserve(plan.reads);
  for (std::uint64_t i = 0; i < kWarmUp + plan.reads; ++i) {
    const Clock::time_point start = Clock::now();
    const auto read = segment.value().read(out);
    const Clock::time_point end = Clock::now();
    if (!read.ok()) return read.status();
    if (i < kWarmUp) continue;
    microseconds.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  FARWRITE_RETURN_IF_ERROR(segment.value().detach());
  return microseconds;
}

void send_at_once(int socket) {
  const int on = 1;
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Status moved(ssize_t count, std::uint64_t bytes) {
  if (count == static_cast<ssize_t>(bytes)) return Status();
  return Status::system_error(StatusCode::kUnavailable, kWhere, "the plain socket broke",
                              count < 0 ? errno : ECONNRESET, "read the other process's error");
}

// The build has no -march, so the loop is compiled once for each width and chosen when it is
// loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FARWRITE_BENCH_WIDEST \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define FARWRITE_BENCH_WIDEST
#endif

FARWRITE_BENCH_WIDEST void add_part(float* __restrict destination, const float* __restrict source,
                                    std::uint64_t elements) {
  for (std::uint64_t i = 0; i < elements; ++i) destination[i] += source[i];
}

}  // namespace

Result<std::vector<double>> time_box_reads(const BoxReads& plan) {
  if (plan.bytes == 0 || plan.bytes % sizeof(float) != 0) {
    return Status::error(StatusCode::kInvalidArgument, kWhere,
                         "a read has no or not a whole number of float32", "use a multiple of 4");
  }
  auto endpoint = Endpoint::parse(plan.endpoint);
  if (!endpoint.ok()) return endpoint.status();
  box::ClientOptions options;
  options.device.fabrics = {plan.fabric};
  options.device.spin = plan.spin;
  auto client = box::Client::connect(endpoint.value(), options);
  if (!client.ok()) return client.status();
  auto timed = time_reads(client.value(), plan);
  const Status closed = client.value().close();
  if (timed.ok() && !closed.ok()) return closed;
  return timed;
}

Status answer_requests(int socket, const SocketRequests& requests) {
  send_at_once(socket);
  std::vector<std::byte> request(requests.request);
  const std::vector<std::byte> answer(requests.answer);
  while (true) {
    const ssize_t asked = ::recv(socket, request.data(), request.size(), MSG_WAITALL);
    if (asked == 0) return Status();
    FARWRITE_RETURN_IF_ERROR(moved(asked, request.size()));
    FARWRITE_RETURN_IF_ERROR(
        moved(::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL), answer.size()));
  }
}

Result<std::vector<double>> time_requests(int socket, const SocketRequests& requests,
                                          std::uint64_t times) {
  send_at_once(socket);
  const std::vector<std::byte> request(requests.request);
  std::vector<std::byte> answer(requests.answer);
  std::vector<double> microseconds;
  microseconds.reserve(times);
  for (std::uint64_t i = 0; i < kWarmUp + times; ++i) {
    const Clock::time_point start = Clock::now();
    FARWRITE_RETURN_IF_ERROR(
        moved(::send(socket, request.data(), request.size(), MSG_NOSIGNAL), request.size()));
    FARWRITE_RETURN_IF_ERROR(
        moved(::recv(socket, answer.data(), answer.size(), MSG_WAITALL), answer.size()));
    const Clock::time_point end = Clock::now();
    if (i < kWarmUp) continue;
    microseconds.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  return microseconds;
}

void add_in_place(float* destination, const float* source, std::uint64_t elements,
                  std::uint32_t threads) {
  const std::uint64_t part = elements / threads / 16 * 16;  // whole cache lines
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < threads; ++i) {
    const std::uint64_t first = i * part;
    const std::uint64_t last = i + 1 == threads ? elements : first + part;
    others.emplace_back([=] { add_part(destination + first, source + first, last - first); });
  }
  add_part(destination, source, threads == 1 ? elements : part);
  for (std::thread& other : others) other.join();
}

}  // namespace farwrite::bench
