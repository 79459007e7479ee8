// MatrixWorld: a handle of every kind, all of them in use, with a peer
// (matrix_far_side.h).
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "box/box.h"
#include "device/device.h"
#include "farwrite/c_api.h"
#include "fault/matrix_far_side.h"
#include "fault/matrix_kinds.h"
#include "stream/stream.h"
#include "transfer/tensor.h"

namespace farwrite::fault {

inline constexpr std::uint64_t kMatrixBytes = 4096;
// In the order of MatrixWorld::channels(). Each begins with a notification of its place there.
inline constexpr const char* kMatrixChannels[] = {"channel", "tensors",  "streams",  "polled",
                                                  "spare",   "c_served", "c_engine", "c_fresh"};

// Of a NamedFabric, or "simulated". It listens where no other process of the machine does: ports
// are used again.
DeviceOptions matrix_options(const std::string& fabric);
box::ServerOptions matrix_box(const std::string& fabric, const std::string& snapshots = "");
TensorSpec matrix_tensor();
// Handlers of an engine. `on_landing` gets the tensor to keep.
fw_tensor_handlers matrix_handlers(void (*on_landing)(void* context, const fw_landing* landing));

// The outcome that a callback gets: once, or never if the call was refused. C's callbacks get it as
// their context.
class Answer {
 public:
  explicit Answer(std::string entry) : entry_(std::move(entry)) {}

  void take(const Status& status);
  auto taker() {
    return [this](const Status& status) { take(status); };
  }
  // For callbacks of C.
  static void take_status(void* context, const fw_status* status);
  // Posts an operation of C, and waits for its end.
  template <typename Post>
  Status follow(const Post& post) {
    fw_completion* completion = nullptr;
    fw_status* const posted = post(&completion);
    if (posted != nullptr) {
      Status status(static_cast<StatusCode>(fw_status_code(posted)), fw_status_message(posted));
      fw_status_free(posted);
      return refused(std::move(status));
    }
    (void)fw_completion_on_settled(completion, take_status, this);
    fw_completion_free(completion);
    return wait();
  }
  static void take_end(void* context) { static_cast<Answer*>(context)->take(Status()); }

  // What it got. kDeadlineExceeded without a text after the limit.
  Status wait();
  // The call was refused: no callback may come. Returns `status`.
  Status refused(Status status);
  // The callback may come, or not. Returns `status`.
  Status at_most_once(Status status);
  // What is wrong with it once nothing can come any more, or nothing.
  std::string problem();
  bool settled();

 private:
  const std::string entry_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int times_ = 0;
  int least_ = 1, most_ = 1;
  Status status_;
};

struct MatrixWorld {
  // `timeout`: of the client of the peer's box. `answers` outlive the world: what has not come when
  // it ends never comes.
  MatrixWorld(const std::string& fabric, std::chrono::milliseconds timeout,
              std::vector<std::shared_ptr<Answer>>& answers);
  ~MatrixWorld();
  MatrixWorld(const MatrixWorld&) = delete;
  MatrixWorld& operator=(const MatrixWorld&) = delete;

  Answer& answer(const std::string& entry);
  std::vector<Channel*> channels() {
    return {&channel, &tensors, &streams_channel, &polled_channel,
            &spare,   &served,  &engine,          &fresh};
  }
  // What a call that cannot fail gives: in a forked child nothing where something is counted, and
  // for the others the value that children get.
  Status counted(bool nothing) const {
    if (::getpid() == owner) return Status();
    return Status(nothing ? StatusCode::kForked : StatusCode::kInternal, "");
  }
  Status in_child(bool expected) const {
    return Status(::getpid() == owner || expected ? StatusCode::kOk : StatusCode::kInternal, "");
  }
  void close_each_handle();
  void close_parents();

  const pid_t owner = ::getpid();
  const std::string fabric;
  const std::string folder;  // for snapshots
  std::unique_ptr<FarSide> far;
  Endpoint peer, peer_box;

  Device device;
  Channel channel, tensors, streams_channel, polled_channel, spare, served, engine, fresh;
  MemoryRegion exported, landing;
  RemoteRegion inbox, outbox;
  Alias alias;  // empty where the fabric does not map
  MemoryRegistration registration;
  Completion pending{Status()}, cancelled{Status()};  // never end by themselves

  TensorReceiver receiver;
  TensorSender sender;
  ReceivedTensor received;

  stream::Streams streams, polled;
  stream::Stream stream, read_stream, finished_stream;

  box::Server server;
  box::Client local, client;  // of `server`; of the peer's box
  box::Segment segment, freed_segment, c_freed_segment;
  box::LeasedSegment leased;
  box::Draft draft, dropped, c_draft, c_dropped;
  std::uint64_t drafted_key = 0;

  fw_device* c_device = nullptr;
  fw_channel* c_channel = nullptr;
  fw_channel* c_served = nullptr;
  fw_channel* c_engine = nullptr;  // has an engine
  fw_channel* c_fresh = nullptr;
  fw_region* c_region = nullptr;
  fw_remote* c_target = nullptr;
  fw_remote* c_view = nullptr;
  fw_stream* c_stream = nullptr;  // these three are of `streams`
  fw_stream* c_read_stream = nullptr;
  fw_stream* c_finished_stream = nullptr;
  std::atomic<fw_landed*> c_landed{nullptr};
  std::atomic<int> c_ends{0};  // calls of the engine's end handler

 private:
  void open_tensors_and_streams();
  void open_box(const std::string& fabric, std::chrono::milliseconds timeout);
  void open_c();

  std::mutex mutex_;
  std::vector<std::shared_ptr<Answer>>& answers_;
};

// Every public function of the handles of include/farwrite, by its name.
const std::vector<Row>& matrix_rows();
// Those of the C ABI.
std::vector<Row> matrix_c_rows();
std::vector<Row> matrix_c_about_rows();
std::vector<Row> matrix_c_tensor_rows();
std::vector<Row> matrix_c_stream_rows();
std::vector<Row> matrix_c_box_rows();
// What the headers declare.
std::set<std::string> matrix_entries();

}  // namespace farwrite::fault
