// Of c_stream.h.
#include "fault/c_null_calls.h"

namespace farwrite::fault {
namespace {

// Callbacks of calls that are refused.
void never_read(void*, const fw_status*, const fw_slice*, std::uint64_t) {
  ADD_FAILURE() << "on_read of a refused call";
}
void never_done(void*, const fw_status*) { ADD_FAILURE() << "done of a refused call"; }

fw_status* create_null(fw_device* device, fw_channel* channel) {
  return fw_streams_create(device, channel, nullptr, Unwritten<fw_streams>());
}

fw_status* write_null(fw_stream* stream, const fw_slice* slices, fw_done done) {
  return fw_stream_write(stream, slices, 1, done, nullptr);
}

}  // namespace

NullCalls null_stream_calls() {
  static const fw_slice empty = {};
  static const fw_slice without_data = {nullptr, 1, nullptr};
  auto* const device = unused<fw_device>();
  auto* const channel = unused<fw_channel>();
  auto* const streams = unused<fw_streams>();
  auto* const stream = unused<fw_stream>();
  return {
      .refused =
          {
              {"fw_streams_create", [=] { return create_null(nullptr, channel); }},
              {"fw_streams_create", [=] { return create_null(device, nullptr); }},
              {"fw_streams_create",
               [=] { return fw_streams_create(device, channel, nullptr, nullptr); }},
              {"fw_streams_open",
               [] { return fw_streams_open(nullptr, 1, Unwritten<fw_stream>()); }},
              {"fw_streams_open", [=] { return fw_streams_open(streams, 1, nullptr); }},
              {"fw_streams_tune", [] { return fw_streams_tune(nullptr, 0); }},
              {"fw_streams_descriptor",
               [] {
                 int descriptor = 7;
                 fw_status* const status = fw_streams_descriptor(nullptr, &descriptor);
                 EXPECT_EQ(descriptor, 7);
                 return status;
               }},
              {"fw_streams_descriptor", [=] { return fw_streams_descriptor(streams, nullptr); }},
              {"fw_stream_write", [] { return write_null(nullptr, &empty, never_done); }},
              {"fw_stream_write", [=] { return write_null(stream, nullptr, never_done); }},
              {"fw_stream_write", [=] { return write_null(stream, &without_data, never_done); }},
              {"fw_stream_write", [=] { return write_null(stream, &empty, nullptr); }},
              {"fw_stream_read", [] { return fw_stream_read(nullptr, never_read, nullptr); }},
              {"fw_stream_read", [=] { return fw_stream_read(stream, nullptr, nullptr); }},
              {"fw_stream_finish", [] { return fw_stream_finish(nullptr, never_done, nullptr); }},
              {"fw_stream_finish", [=] { return fw_stream_finish(stream, nullptr, nullptr); }},
          },
      .nothing =
          {
              {"fw_lease_release", [] { return fw_lease_release(nullptr), true; }},
              {"fw_streams_poll", [] { return fw_streams_poll(nullptr) == 0; }},
              {"fw_streams_arm", [] { return fw_streams_arm(nullptr) == 0; }},
              {"fw_streams_disarm", [] { return fw_streams_disarm(nullptr), true; }},
              {"fw_streams_options", [=] { return fw_streams_options(streams, nullptr), true; }},
              {"fw_streams_options",
               [] {
                 fw_stream_options options = {};
                 options.struct_size = sizeof(options);
                 fw_streams_options(nullptr, &options);
                 return options.window == 0;
               }},
              {"fw_streams_stats", [=] { return fw_streams_stats(streams, nullptr), true; }},
              {"fw_streams_stats",
               [] {
                 fw_stream_stats stats = {};
                 stats.struct_size = sizeof(stats);
                 fw_streams_stats(nullptr, &stats);
                 return stats.messages == 0;
               }},
              {"fw_streams_release", [] { return fw_streams_release(nullptr), true; }},
              {"fw_stream_abort", [] { return fw_stream_abort(nullptr, 1, "r"), true; }},
              {"fw_stream_release", [] { return fw_stream_release(nullptr), true; }},
          },
  };
}

}  // namespace farwrite::fault
