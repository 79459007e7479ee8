#include "fault/matrix_world.h"

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "c_api/handles.h"
#include "c_handles.h"
#include "core/completion_state.h"
#include "fault/fixture.h"
#include "fault/named_fabric.h"
#include "fault/role.h"
#include "simulated/simulated_kind.h"

namespace farwrite::fault {
namespace {

constexpr std::uint64_t kShortNs = 300'000'000;

void keep_landed(void* context, const fw_landing* landing) {
  static_cast<MatrixWorld*>(context)->c_landed = landing->landed;
}

std::string new_folder() {
  std::string name = std::filesystem::temp_directory_path() / "farwrite-matrix-XXXXXX";
  FARWRITE_REQUIRE(::mkdtemp(name.data()) != nullptr);
  return name;
}

box::SegmentSpec named_segment(const std::string& name) {
  box::SegmentSpec spec;
  spec.name = name;
  spec.dims = {8};
  return spec;
}

}  // namespace

DeviceOptions matrix_options(const std::string& fabric) {
  DeviceOptions options = options_of(fabric);
  if (fabric == "simulated") {
    (void)matrix_network();  // registers the fabric
    options.fabrics = {fabric::kSimulated};
  }
  const unsigned process = static_cast<unsigned>(::getpid());
  options.listen = {.host = "127." + std::to_string(1 + (process >> 16) % 254) + "." +
                            std::to_string((process >> 8) % 256) + "." +
                            std::to_string(process % 256),
                    .port = 0};
  return options;
}

box::ServerOptions matrix_box(const std::string& fabric, const std::string& snapshots) {
  box::ServerOptions options;
  options.device = matrix_options(fabric);
  options.memory = std::uint64_t{64} << 20;
  options.pool = 0;
  options.threads = 3;
  options.snapshot_directory = snapshots;
  return options;
}

TensorSpec matrix_tensor() { return {.dtype = "<f4", .item_bytes = 4, .dims = {8}}; }

fw_tensor_handlers matrix_handlers(void (*on_landing)(void* context, const fw_landing* landing)) {
  fw_tensor_handlers all = {};
  all.struct_size = sizeof(all);
  all.on_message = [](void*, const fw_notification* message) { fw_remote_release(message->lent); };
  all.on_end = [](void*, int, const fw_status*) {};
  all.on_landing = on_landing;
  all.on_slot = [](int opened) {
    if (opened == 0) say("a slot could not be opened");
  };
  all.run_later = [](std::uint64_t, void (*work)(void*), void* context) {
    std::thread(work, context).detach();
  };
  return all;
}

void Answer::take(const Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++times_;
  status_ = status;
  changed_.notify_all();
}

void Answer::take_status(void* context, const fw_status* status) {
  static_cast<Answer*>(context)->take(
      Status(static_cast<StatusCode>(fw_status_code(status)), fw_status_message(status)));
}

Status Answer::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, limit(), [this] { return times_ > 0; })) {
    return Status(StatusCode::kDeadlineExceeded, "");
  }
  return status_;
}

Status Answer::refused(Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  least_ = most_ = 0;
  return status;
}

Status Answer::at_most_once(Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  least_ = 0;
  return status;
}

bool Answer::settled() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return times_ >= least_ && times_ <= most_;
}

std::string Answer::problem() {
  if (settled()) return "";
  const std::lock_guard<std::mutex> lock(mutex_);
  return entry_ + ": its callback came " + std::to_string(times_) + " times";
}

MatrixWorld::MatrixWorld(const std::string& fabric, std::chrono::milliseconds timeout,
                         std::vector<std::shared_ptr<Answer>>& answers)
    : fabric(fabric),
      folder(new_folder()),
      device(open_device(matrix_options(fabric))),
      server(box::Server::serve(matrix_box(fabric, folder)).value()),
      answers_(answers) {
  far = FarSide::open(device.endpoint().to_string(), server.endpoint().to_string(), fabric);
  // They may come in another order than they were opened in.
  for (std::size_t count = channels().size(); count > 0; --count) {
    Channel accepted = device.accept(kPatience).value();
    *channels().at(accepted.wait_notification(kPatience).value().tag) = accepted;
  }
  exported = device.allocate(kMatrixBytes).value();
  FARWRITE_REQUIRE_OK(device.publish("export", exported));
  landing = channel.allocate(kMatrixBytes).value();
  static char registered[64];
  registration = device.register_memory(MutableByteView(registered, sizeof(registered))).value();
  pending = Completion(std::make_shared<core::CompletionState>());
  cancelled = Completion(std::make_shared<core::CompletionState>());
  inbox = channel.lookup("inbox", kPatience).value();
  outbox = channel.lookup("outbox", kPatience).value();
  if (channel.maps_peer_memory()) alias = channel.alias(outbox, 0, kMatrixBytes).value();
  open_c();
  open_tensors_and_streams();
  peer = Endpoint::parse(far->wait_for("at")).value();
  peer_box = Endpoint::parse(far->wait_for("box")).value();
  open_box(fabric, timeout);
  received = receiver.receive(kPatience).value();
  far->wait_for("ready");
  stream.write({{{"first", 5}, nullptr}}, [](const Status& /*status*/) {});
  FARWRITE_REQUIRE(eventually([this] { return c_landed.load() != nullptr; }));
  FARWRITE_REQUIRE(
      eventually([this] { return fw_channel_has_slot(c_engine, "edge", 4, 16) == 1; }));
}

void MatrixWorld::open_tensors_and_streams() {
  ReceiverOptions options;
  options.kind = EdgeKind::kStatic;
  options.spec = matrix_tensor();
  receiver = TensorReceiver::open(tensors, "edge", options).value();
  sender = TensorSender::open(device, tensors, "to the peer", kPatience).value();
  streams = stream::Streams::create(device, streams_channel).value();
  stream = streams.open(1).value();
  read_stream = streams.open(2).value();
  finished_stream = streams.open(3).value();
  stream::Options by_poll;
  by_poll.polled = true;
  polled = stream::Streams::create(device, polled_channel, by_poll).value();
  c_stream = new fw_stream{streams.open(4).value()};
  c_read_stream = new fw_stream{streams.open(5).value()};
  c_finished_stream = new fw_stream{streams.open(6).value()};
}

void MatrixWorld::open_box(const std::string& fabric, std::chrono::milliseconds timeout) {
  box::ClientOptions options;
  options.device = matrix_options(fabric);
  local = box::Client::connect(server.endpoint(), options).value();
  drafted_key = local.create(named_segment("drafted")).value().info().key;
  draft = server.draft(local.create(named_segment("committed")).value().info().key).value();
  dropped = server.draft(local.create(named_segment("dropped")).value().info().key).value();
  c_dropped = server.draft(local.create(named_segment("c_dropped")).value().info().key).value();
  c_draft = server.draft(local.create(named_segment("c_draft")).value().info().key).value();
  options.timeout = timeout;
  // The limit is short because the server will be stopped. On a busy machine the server may exceed
  // it while it still runs.
  const auto in_time = [](auto call) {
    auto result = call();
    const bool done = eventually([&] {
      if (result.status().code() == StatusCode::kDeadlineExceeded) result = call();
      return result.ok() || result.status().code() != StatusCode::kDeadlineExceeded;
    });
    FARWRITE_REQUIRE(done);
    return std::move(result).value();
  };
  client = in_time([&] { return box::Client::connect(peer_box, options); });
  segment = in_time([&] { return client.create(named_segment("weights")); });
  freed_segment = in_time([&] { return client.create(named_segment("freed")); });
  c_freed_segment = in_time([&] { return client.create(named_segment("c_freed")); });
  leased = segment.lease(kPatience).value();
  // The first of these waits for the server.
  box::Change fill;
  fill.operation = box::Operation::kFill;
  FARWRITE_REQUIRE_OK(segment.post(fill).done.wait(kPatience));
  float floats[8];
  (void)in_time([&] { return segment.read({floats, sizeof(floats)}); });
  if (channel.maps_peer_memory()) FARWRITE_REQUIRE_OK(segment.view().status());
}

void MatrixWorld::open_c() {
  c_device = new fw_device{device};
  c_channel = new fw_channel{channel};
  c_served = new fw_channel{served};
  c_engine = new fw_channel{engine};
  c_fresh = new fw_channel{fresh};
  fw_tensor_handlers handlers = matrix_handlers(keep_landed);
  handlers.on_end = [](void* world, int, const fw_status*) {
    ++static_cast<MatrixWorld*>(world)->c_ends;
  };
  FARWRITE_REQUIRE(fw_channel_serve_tensors(c_engine, &handlers, this) == nullptr);
  fw_channel_want_slots(c_engine, "back", 4, 16);
  c_region = new fw_region{channel.allocate(kMatrixBytes).value()};
  c_target = new fw_remote{channel, inbox};
  c_view = new fw_remote{channel, outbox};
}

MatrixWorld::~MatrixWorld() {
  fw_remote_release(c_view);
  fw_remote_release(c_target);
  fw_region_release(c_region);
  for (fw_stream* stream : {c_stream, c_read_stream, c_finished_stream}) fw_stream_release(stream);
  fw_landed_release(c_landed.exchange(nullptr));
  for (fw_channel* handle : {c_engine, c_served, c_fresh}) {
    if (handle != nullptr) fw_status_free(finish(handle, kShortNs));
  }
  delete c_channel;
  delete c_device;
  (void)server.close();
  if (::getpid() == owner) std::filesystem::remove_all(folder);
}

Answer& MatrixWorld::answer(const std::string& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return *answers_.emplace_back(std::make_shared<Answer>(entry));
}

void MatrixWorld::close_each_handle() {
  (void)segment.detach();
  (void)freed_segment.detach();
  (void)c_freed_segment.detach();
  (void)client.close();
  (void)server.close();
  stream.abort(Status::error(StatusCode::kCancelled, {"read"}, "the test closed it", "open it"));
  read_stream.abort(
      Status::error(StatusCode::kCancelled, {"read"}, "the test closed it", "open it"));
  finished_stream.abort(
      Status::error(StatusCode::kCancelled, {"read"}, "the test closed it", "open it"));
  for (fw_stream* one : {c_stream, c_read_stream, c_finished_stream}) {
    fw_stream_abort(one, static_cast<int>(StatusCode::kCancelled), "the test closed it");
  }
  (void)sender.close(kShort);
  (void)receiver.close();
  registration.release();
  (void)landing.close();
  (void)exported.close();
  for (Channel* one : channels()) (void)one->close();
  (void)device.close();
}

void MatrixWorld::close_parents() {
  (void)client.close();
  (void)server.close();
  (void)device.close();
}

}  // namespace farwrite::fault
