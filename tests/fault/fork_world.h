// A handle of every kind, and what each of their entries does in a forked child.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "farwrite/box.h"
#include "farwrite/c_api.h"
#include "farwrite/farwrite.h"
#include "farwrite/stream.h"
#include "farwrite/tensor.h"

namespace farwrite::fault {

// Two devices of this process, connected several times, a box with a client, and C handles. All are
// in use.
struct ForkWorld {
  ForkWorld();
  ~ForkWorld();
  ForkWorld(const ForkWorld&) = delete;
  ForkWorld& operator=(const ForkWorld&) = delete;

  // Uses what the children were refused.
  void use();

  Device device;
  Device other;
  Channel channel;
  Channel far;
  MemoryRegion exported;
  MemoryRegion landing;
  RemoteRegion remote_landing;
  RemoteRegion remote_exported;
  Alias alias;
  Completion pending{Status()};  // never ends

  TensorReceiver receiver;
  TensorSender sender;
  ReceivedTensor received;

  stream::Streams streams;
  stream::Streams far_streams;
  stream::Stream stream;

  box::Server server;
  box::Client client;
  box::Segment segment;
  box::LeasedSegment leased;
  box::Draft draft;

  fw_device* c_device = nullptr;
  fw_channel* c_channel = nullptr;
  fw_channel* c_tensors = nullptr;  // has an engine
  fw_region* c_region = nullptr;
  fw_target* c_target = nullptr;
  fw_view* c_view = nullptr;

 private:
  Channel tensors_, far_tensors_, engine_, far_engine_;
};

struct ForkRow {
  std::string entry;
  StatusCode outcome = StatusCode::kForked;
  // What came of it: kOk also for a fact, and for an entry without an error that gave the value
  // for children. kInternal for a wrong value.
  std::function<StatusCode(ForkWorld& world)> call;
};

// Every public function of the handles of include/farwrite, by its name.
const std::vector<ForkRow>& fork_rows();
// Those of the C ABI.
std::vector<ForkRow> c_fork_rows();

}  // namespace farwrite::fault
