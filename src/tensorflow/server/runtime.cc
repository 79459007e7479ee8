#include "server/runtime.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "base/options.h"
#include "base/own_address.h"
#include "base/work_queue.h"
#include "core/mutex.h"
#include "memory/arena_allocator.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::plugin {
namespace {

constexpr std::size_t kMaxName = 255;
// A receive that has waited for one to two of these asks whether it waits for the right thing.
constexpr std::chrono::seconds kLookAfter(4);

std::atomic<Runtime*> the_runtime{nullptr};
std::atomic<pid_t> the_process{0};

const char* environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

bool names_one_fabric(const char* fabrics) {
  return fabrics != nullptr && std::strchr(fabrics, ',') == nullptr;
}

absl::Status open_device(fw_device_options& options, const std::string& own_host,
                         fw_device** device) {
  const std::string own = join_host_port(own_host, "0");
  options.listen = own.c_str();
  FwStatus opened(fw_device_open(&options, device));
  // The task's address may be a service's, or a router's, that leads to this host.
  if (opened != nullptr && environment("FARWRITE_LISTEN") == nullptr && !is_loopback(own)) {
    const std::string why = message_of(opened);
    options.listen = nullptr;
    opened.reset(fw_device_open(&options, device));
    if (opened == nullptr) {
      LOG(WARNING) << "Farwrite: cannot listen on the task's own address, so tensors to and from"
                   << " other hosts go over gRPC; set FARWRITE_LISTEN to an address of this host: "
                   << why;
    }
  }
  if (opened == nullptr) return absl::OkStatus();
  const std::string why = "Farwrite: cannot open a device: " + message_of(opened);
  const std::string_view code = fw_status_code_name(opened.get());
  if (code == "kInvalidArgument") return absl::InvalidArgumentError(why);
  if (code == "kResourceExhausted") return absl::ResourceExhaustedError(why);
  return absl::UnavailableError(why);
}

}  // namespace

Runtime::Runtime(fw_device* device, const std::string& own_host)
    : calls_(device),
      control_client_(calls_.client()),
      control_service_(calls_.service()),
      step_client_(calls_.client()),
      step_service_(calls_.service()),
      peers_(device, {{Peers::kLanded, &pushes_}, {kCallTag, &calls_}}, own_host,
             names_one_fabric(environment("FARWRITE_FABRICS"))) {}

void Runtime::look_after() {
  WorkQueue::of_process().submit_after(kLookAfter, [this] {
    WorkQueue::of_process().submit([this] {
      arrivals().remind();
      for (const std::shared_ptr<PeerProcess>& peer : peers_.processes()) {
        PushReceiver::resume(peer);
      }
    });
    look_after();
  });
}

absl::Status Runtime::open(const std::string& own_host, const std::string& task,
                           Runtime** runtime) {
  static core::Mutex* const mutex = new core::Mutex(core::LockRank::kProgram, 5);
  const core::Lock lock(*mutex);
  if ((*runtime = current()) != nullptr) return absl::OkStatus();
  if (!options_status().ok()) return options_status();

  fw_device_options options{};
  options.struct_size = sizeof(options);
  options.environment = 1;
  options.open_elsewhere = 1;  // as TensorFlow's own gRPC is
  // A job's name may be longer than a device's; a message says enough by its end.
  const std::string name = task.size() > kMaxName ? task.substr(task.size() - kMaxName) : task;
  options.name = name.c_str();
  // Large tensors must not hold up small ones (PeerProcess::lane_of), and have a poller of their
  // own. A chain of ten small tensors beside reads of 64 MiB took 27 ms with one lane, 10 with two,
  // and 6 with two pollers as well, on 2 cores.
  options.lanes = 4;
  options.pollers = 2;
  // A poller that spins takes the core from the kernels it delivers to: on 2 cores a chain of 20
  // small tensors between two processes once took 1.2 times as long with 20 us of it. Since threads
  // that poll offer their core to others, it is neither faster nor slower (`farwrite bench step`,
  // 1 ns, 20 us and 50 us in turn), and takes up to a tenth more processor time.
  options.spin_ns = 1;
  fw_device* device = nullptr;
  const absl::Status opened = open_device(options, own_host, &device);
  if (!opened.ok()) return opened;
  std::promise<Peers*> peers;
  const auto accepts = [ready = peers.get_future().share()] { ready.get()->accept_loop(); };
  if (!WorkQueue::of_process().start() || !start_thread(accepts)) {
    const FwStatus closed(fw_device_close(device, 0));
    fw_device_release(device);
    return absl::ResourceExhaustedError(
        "Farwrite: no thread could be started; end other threads, or raise the limits (ulimit -u, "
        "ulimit -v)");
  }
  *runtime = new Runtime(device, own_host);
  ArenaAllocator::use(device);
  peers.set_value(&(*runtime)->peers_);
  the_process.store(getpid());
  the_runtime.store(*runtime, std::memory_order_release);
  (*runtime)->look_after();
  return absl::OkStatus();
}

Runtime* Runtime::current() {
  Runtime* const runtime = the_runtime.load(std::memory_order_acquire);
  return runtime != nullptr && the_process.load() == getpid() ? runtime : nullptr;
}

}  // namespace farwrite::plugin
