// ReplySource: the bytes of one reply, which TensorFlow parses where they lie in the ring.
#pragma once

#include <cstdint>

#include "farwrite/status.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "link.h"
#include "tensorflow/core/distributed_runtime/tensor_coding.h"

namespace farwrite::experiments {

// For the one thread that reads the link. Waits for bytes that have not come yet, so the receiver
// copies the first part out of the ring while the sender copies a later one into it.
class ReplySource final : public tensorflow::TensorResponse::Source,
                          private google::protobuf::io::ZeroCopyInputStream {
 public:
  ReplySource(Link* link, std::uint64_t bytes) : link_(link), left_(bytes) {}

  // The bytes cannot be read a second time: then they seem to end, and the parser reports its
  // error.
  google::protobuf::io::ZeroCopyInputStream* contents() override;
  // Skips what was not parsed. The error that ended the link, if it ended before the bytes did.
  Status finish();

 private:
  bool Next(const void** data, int* size) override;
  void BackUp(int count) override;
  bool Skip(int count) override;
  std::int64_t ByteCount() const override { return count_; }

  // Gives the last bytes of Next() back to the ring.
  void release();

  Link* const link_;
  std::uint64_t left_;       // not consumed
  std::uint64_t given_ = 0;  // by the last Next(), not consumed
  std::int64_t count_ = 0;
  bool begun_ = false;
  bool spent_ = false;  // contents() was called again
  Status failed_;
};

}  // namespace farwrite::experiments
