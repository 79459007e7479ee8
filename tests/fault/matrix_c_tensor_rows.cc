// The rows of c_tensor.h. Their handles share the objects of tensor_rows() in matrix_rows.cc.
#include "c_api/handles.h"
#include "c_handles.h"
#include "fault/matrix_c_calls.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

using W = MatrixWorld;

const float c_floats[8] = {};

fw_tensor_spec c_tensor() {
  fw_tensor_spec spec = {};
  spec.dtype = "<f4";
  spec.item_bytes = 4;
  spec.rank = 1;
  spec.dims[0] = 8;
  return spec;
}

// Nothing came, and that is no error: as the row of TensorReceiver::receive() has it.
Status late_without(const fw_tensor* tensor) {
  return tensor == nullptr ? Status(StatusCode::kDeadlineExceeded, "") : Status();
}

Status receive_by_c(W& w) {
  fw_receiver receiver{w.receiver};
  fw_tensor* const before = reinterpret_cast<fw_tensor*>(std::uintptr_t{64});
  fw_tensor* tensor = before;
  const Status received = status_of(fw_receiver_receive(&receiver, limit_ns(), &tensor));
  if (received.ok() == (tensor == before)) return Status(StatusCode::kInternal, "of the output");
  if (!received.ok()) return received;
  const Status outcome = late_without(tensor);
  fw_tensor_release(tensor);
  return outcome;
}

Status count_of(W& w, void (*fill)(W& w, fw_tensor_stats* stats)) {
  fw_tensor_stats stats = {};
  stats.struct_size = sizeof(stats);
  fill(w, &stats);
  return w.counted(stats.pushed == 0);
}

}  // namespace

std::vector<Row> matrix_c_tensor_rows() {
  return {
      peer("fw_receiver_open",
           [](W& w) {
             fw_channel channel{w.tensors};
             Output<fw_receiver> receiver;
             return receiver.check(
                 fw_receiver_open(&channel, "other by C", nullptr, receiver),
                 [](fw_receiver* opened) { fw_status_free(finish(opened, limit_ns())); });
           },
           {{"stopped", kReturns}}),
      peer("fw_receiver_receive", receive_by_c, {{"none", kLate}, {"closed", "EndOfStream"}}),
      peer("fw_receiver_wait",
           [](W& w) {
             fw_receiver receiver{w.receiver};
             return status_of(fw_receiver_wait(&receiver, limit_ns()));
           },
           // fw_receiver_receive() returns at once then, with the error.
           {{"none", kLate},
            {"killed", kReturns},
            {"closed", kReturns},
            {"shut", kReturns},
            {"parent", kReturns}}),
      own("fw_receiver_reset",
          [](W& w) {
            fw_receiver receiver{w.receiver};
            return status_of(fw_receiver_reset(&receiver));
          },
          {{"parent", kReturns}}),
      count("fw_receiver_stats",
            [](W& w) {
              return count_of(w, [](W& w, fw_tensor_stats* stats) {
                const fw_receiver receiver{w.receiver};
                fw_receiver_stats(&receiver, stats);
              });
            }),
      ending("fw_receiver_close",
             [](W& w) {
               fw_receiver receiver{w.receiver};
               return status_of(fw_receiver_close(&receiver, limit_ns()));
             }),
      ending("fw_receiver_release", [](W& w) { fw_receiver_release(new fw_receiver{w.receiver}); },
             {{"forked", kReturns}}),
      fact("fw_tensor_get",
           [](W& w) {
             const fw_tensor tensor{w.received};
             fw_tensor_info info = {};
             info.struct_size = sizeof(info);
             fw_tensor_get(&tensor, &info);
             return w.in_child(*static_cast<const float*>(info.data) == 1.0F);
           }),
      fact("fw_tensor_release", [](W& w) { fw_tensor_release(new fw_tensor{w.received}); }),
      peer("fw_sender_open",
           [](W& w) {
             fw_channel channel{w.tensors};
             Output<fw_sender> sender;
             return sender.check(
                 fw_sender_open(w.c_device, &channel, "nobody's by C", limit_ns(), sender),
                 fw_sender_release);
           },
           {{"none", kLate}}),
      fact("fw_sender_announced",
           [](W& w) {
             const fw_sender sender{w.sender};
             fw_tensor_spec spec = {};
             return w.in_child(fw_sender_announced(&sender, &spec) == FW_EDGE_STATIC &&
                               spec.dims[0] == 8);
           }),
      peer("fw_sender_send",
           [](W& w) {
             return w.answer("fw_sender_send").follow([&](fw_completion** end) {
               fw_sender sender{w.sender};
               const fw_tensor_spec spec = c_tensor();
               return fw_sender_send(&sender, &spec, c_floats, sizeof(c_floats), limit_ns(), end);
             });
           },
           {{"stopped", kReturns}}),
      count("fw_sender_stats",
            [](W& w) {
              return count_of(w, [](W& w, fw_tensor_stats* stats) {
                const fw_sender sender{w.sender};
                fw_sender_stats(&sender, stats);
              });
            }),
      ending("fw_sender_abandon",
             [](W& w) {
               fw_sender sender{w.sender};
               return status_of(fw_sender_abandon(&sender));
             }),
      ending("fw_sender_release", [](W& w) { fw_sender_release(new fw_sender{w.sender}); },
             {{"forked", kReturns}}),
      ending("fw_sender_close",
             [](W& w) {
               fw_sender sender{w.sender};
               return status_of(fw_sender_close(&sender, limit_ns()));
             }),
  };
}

}  // namespace farwrite::fault
