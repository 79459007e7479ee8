// The rows of c_stream.h.
#include <utility>

#include "c_api/handles.h"
#include "fault/matrix_c_calls.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

using W = MatrixWorld;

const char c_stream_bytes[32] = {};

fw_streams polled_streams(W& w) { return {.streams = w.polled, .polled = true}; }

void take_read(void* answer, const fw_status* status, const fw_slice* slices, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) fw_lease_release(slices[i].lease);
  Answer::take_status(answer, status);
}

std::vector<Row> c_streams_rows() {
  return {
      own("fw_streams_create",
          [](W& w) {
            fw_channel channel{w.spare};
            Output<fw_streams> streams;
            return streams.check(fw_streams_create(w.c_device, &channel, nullptr, streams),
                                 fw_streams_release);
          }),
      peer("fw_streams_open",
           [](W& w) {
             fw_streams streams{w.streams};
             Output<fw_stream> stream;
             return stream.check(fw_streams_open(&streams, 8, stream), fw_stream_release);
           },
           {{"stopped", kReturns}}),
      peer("fw_streams_tune",
           [](W& w) {
             fw_streams streams{w.streams};
             return status_of(fw_streams_tune(&streams, 1'000'000));
           }),
      count("fw_streams_poll",
            [](W& w) {
              fw_streams streams = polled_streams(w);
              return w.in_child(fw_streams_poll(&streams) == 0);
            },
            {{"forked", kReturns}}),
      own("fw_streams_descriptor",
          [](W& w) {
            fw_streams streams = polled_streams(w);
            int descriptor = -1;
            const Status made = status_of(fw_streams_descriptor(&streams, &descriptor));
            const bool written = descriptor >= 0;
            return made.ok() == written ? made : Status(StatusCode::kInternal, "of *descriptor");
          }),
      fact("fw_streams_arm",
           [](W& w) {
             fw_streams streams = polled_streams(w);
             return w.in_child(fw_streams_arm(&streams) == 1);
           }),
      fact("fw_streams_disarm",
           [](W& w) {
             fw_streams streams = polled_streams(w);
             fw_streams_disarm(&streams);
           }),
      fact("fw_streams_options",
           [](W& w) {
             const fw_streams streams{w.streams};
             fw_stream_options options = {};
             options.struct_size = sizeof(options);
             fw_streams_options(&streams, &options);
             return options.window;
           }),
      count("fw_streams_stats",
            [](W& w) {
              const fw_streams streams{w.streams};
              fw_stream_stats stats = {};
              stats.struct_size = sizeof(stats);
              fw_streams_stats(&streams, &stats);
              return w.counted(stats.messages == 0);
            }),
      fact("fw_streams_release", [](W& w) { fw_streams_release(new fw_streams{w.streams}); }),
      fact("fw_lease_release",
           [](W& w) { fw_lease_release(new fw_lease{std::make_shared<Alias>(w.alias)}); }),
  };
}

std::vector<Row> c_stream_rows() {
  return {
      peer("fw_stream_write",
           [](W& w) {
             Answer& answer = w.answer("fw_stream_write");
             Answer& released = w.answer("fw_stream_write: release");
             fw_lease* lease = nullptr;
             fw_status_free(fw_lease_make(Answer::take_end, &released, &lease));
             const fw_slice slice = {c_stream_bytes, sizeof(c_stream_bytes), lease};
             const Status refused =
                 status_of(fw_stream_write(w.c_stream, &slice, 1, Answer::take_status, &answer));
             return refused.ok() ? answer.wait() : answer.refused(refused);
           },
           {{"stopped", kReturns}}),
      peer("fw_stream_read",
           [](W& w) {
             Answer& answer = w.answer("fw_stream_read");
             const Status refused = status_of(fw_stream_read(w.c_read_stream, take_read, &answer));
             return refused.ok() ? answer.wait() : answer.refused(refused);
           },
           {{"none", kLate}}),
      peer("fw_stream_finish",
           [](W& w) {
             Answer& answer = w.answer("fw_stream_finish");
             const Status refused =
                 status_of(fw_stream_finish(w.c_finished_stream, Answer::take_status, &answer));
             return refused.ok() ? answer.wait() : answer.refused(refused);
           }),
      ending("fw_stream_abort",
             [](W& w) {
               for (fw_stream* one : {w.c_stream, w.c_read_stream, w.c_finished_stream}) {
                 fw_stream_abort(one, static_cast<int>(StatusCode::kCancelled), "the test");
               }
             },
             {{"forked", kReturns}}),
      ending("fw_stream_release",
             [](W& w) {
               fw_stream_release(std::exchange(w.c_stream, nullptr));
               fw_stream_release(std::exchange(w.c_read_stream, nullptr));
               fw_stream_release(std::exchange(w.c_finished_stream, nullptr));
             },
             {{"forked", kReturns}}),
  };
}

}  // namespace

std::vector<Row> matrix_c_stream_rows() {
  std::vector<Row> rows = c_streams_rows();
  for (Row& row : c_stream_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace farwrite::fault
