// LandingHead: what a sender puts in front of a tensor that it writes into a slot of its receiver:
// all that a push says, in a fixed length, so that one write holds everything.
//
//     0 u32 magic "FWTL"   4 u32 slot             8 u64 generation of the grant
//    16 u64 receiver      24 u64 sender          32 i64 step
//    40 i32 dtype         44 u8 rank, u8 length of the instance, 2 zero bytes
//    48 u64 tensor bytes  56 u64 start of the step
//    64 i64 dims[16], those past the rank zero
//   192 i64 sent         200 the instance, zeros behind it
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.pb.h"

namespace farwrite::plugin {

// A multiple of 64, so that the tensor behind it is aligned.
inline constexpr std::size_t kLandingHeadBytes = 256;
inline constexpr int kMaxLandingRank = 16;
inline constexpr std::size_t kMaxInstanceBytes = 64;

struct LandingHead {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  std::uint64_t receiver = 0;  // incarnation of the server it is for
  std::uint64_t sender = 0;    // incarnation of the server it is from
  std::int64_t step = 0;
  std::uint64_t start = 0;  // of the step at the sender
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  std::uint64_t tensor_bytes = 0;
  std::int64_t sent = 0;  // see TransferLog::start()
  std::string instance;   // of the rendezvous key, see split_key(); the slot's edge is the rest
};

using LandingHeadBytes = std::array<char, kLandingHeadBytes>;

// False if it has too many dimensions or too long an instance.
bool encode(const LandingHead& head, LandingHeadBytes* bytes);
// Of private memory, never of the slot's own, which the peer may still write. False if it is
// malformed, or the bytes are not what dtype and shape say.
bool decode(const LandingHeadBytes& bytes, LandingHead* head);

}  // namespace farwrite::plugin
