// RemoteBytes: bytes of a peer's memory, which it lends to this process until the object goes.
// Where the fabric maps them they are looked at where they lie, else they are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "base/status_bridge.h"
#include "farwrite/c_api.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// Any thread, one at a time.
class RemoteBytes {
 public:
  // Of no peer.
  RemoteBytes() = default;
  // Owns `remote`, which may be null. Reads go on `lane`.
  RemoteBytes(fw_remote* remote, std::uint32_t lane) : remote_(remote), lane_(lane) {}

  explicit operator bool() const { return remote_ != nullptr; }
  // 0 of no peer.
  std::uint64_t size() const;
  // Whether they must be read, because their host is another.
  bool unmapped() const;
  // Whether look() answers at once; not if the peer must first answer for its segment.
  bool ready() const;
  // Where they lie, for as long as this object, or what it is moved to.
  absl::Status look(const void** data) const;
  // Waits for the peer until look() answers at once. kCancelled once `given_up`, which is asked
  // again and again: nothing waits for the bytes any more.
  absl::Status wait_until_ready(const std::function<bool()>& given_up) const;
  // Reads them all to `destination`, which lives until `over`. That is called once, on any thread,
  // which it must not block, when the bytes have gone back to the peer. kUnavailable when the peer
  // has gone.
  void read(void* destination, std::function<void(absl::Status)> over) &&;

 private:
  struct RunningRead;
  struct ReleaseRemote {
    void operator()(fw_remote* remote) const { fw_remote_release(remote); }
  };

  static void read_over(void* context, const fw_status* status);
  // kDeadlineExceeded: the peer has not answered within the timeout.
  absl::Status map(std::uint64_t timeout_ns, const void** data) const;

  std::unique_ptr<fw_remote, ReleaseRemote> remote_;
  std::uint32_t lane_ = 0;
};

// Makes a tensor whose memory are the bytes, read-only, which must be ready. They go back to the
// peer with its buffer.
absl::Status tensor_over(RemoteBytes bytes, tensorflow::DataType dtype,
                         const tensorflow::TensorShape& shape, tensorflow::Tensor* tensor);

// Tensors over a peer's memory that are alive now, and reads that are under way.
std::int64_t held_views();
std::int64_t remote_reads();

}  // namespace farwrite::plugin
