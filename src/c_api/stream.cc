// The C ABI: byte streams.
//
// A callback may release the handle of the call that runs it. So each call that may run one keeps a
// copy of the handle until it returns.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_api/handles.h"

using farwrite::Result;
using farwrite::Status;
using farwrite::StatusCode;
using farwrite::c_api::fill;
using farwrite::c_api::refuse_engine;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_callback;
using farwrite::c_api::to_duration;
using farwrite::stream::Slice;
using farwrite::stream::Stream;
using farwrite::stream::Streams;

namespace {

Result<farwrite::stream::Options> to_stream_options(const fw_stream_options* given) {
  farwrite::stream::Options options;
  if (given == nullptr) return options;
  const auto sized = farwrite::c_api::taken("fw_stream_options", *given);
  if (!sized.ok()) return sized.status();
  const fw_stream_options& c = sized.value();
  const farwrite::c_api::Numbers numbers(c.exact);
  numbers.take(c.lend_from, options.lend_from);
  numbers.take(c.chunk, options.chunk);
  numbers.take(c.window, options.window);
  numbers.take(c.message_window, options.message_window);
  numbers.take(c.write_bound, options.write_bound);
  numbers.take(c.held, options.held);
  options.polled = c.polled != 0;
  return options;
}

// The refusal of a slice that cannot be memory, or NULL.
fw_status* refuse_slice(std::string_view operation, const Slice& slice) {
  const farwrite::ByteView& bytes = slice.bytes;
  if (fw_status* const refused = refuse_null(
          operation, {farwrite::c_api::bytes_at("data of a slice", bytes.data, bytes.size)})) {
    return refused;
  }
  return farwrite::c_api::refuse_wrapping(operation, bytes.data, bytes.size);
}

// Takes the leases over.
std::vector<Slice> to_slices(const fw_slice* slices, std::uint64_t count) {
  std::vector<Slice> all;
  if (slices == nullptr) return all;
  all.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::unique_ptr<fw_lease> lease(slices[i].lease);
    all.push_back({.bytes = {slices[i].data, slices[i].bytes},
                   .owner = lease == nullptr ? nullptr : std::move(lease->owner)});
  }
  return all;
}

Stream::OnRead to_on_read(fw_on_read on_read, void* context) {
  return [=](Result<std::vector<Slice>> read) {
    if (!read.ok()) {
      const fw_status failed{read.status()};
      return on_read(context, &failed, nullptr, 0);
    }
    std::vector<fw_slice> slices;
    slices.reserve(read.value().size());
    for (Slice& slice : read.value()) {
      slices.push_back({slice.bytes.data, slice.bytes.size, new fw_lease{std::move(slice.owner)}});
    }
    on_read(context, nullptr, slices.data(), slices.size());
  };
}

}  // namespace

fw_status* fw_streams_create(fw_device* device, fw_channel* channel,
                             const fw_stream_options* options, fw_streams** streams) {
  constexpr const char* kOperation = "create streams";
  if (fw_status* const refused = refuse_null(kOperation, {{"device", device != nullptr},
                                                          {"channel", channel != nullptr},
                                                          {"streams", streams != nullptr}})) {
    return refused;
  }
  if (fw_status* const refused = refuse_engine(channel, kOperation)) return refused;
  if (fw_status* const refused =
          farwrite::c_api::refuse_other_device(channel, device, kOperation)) {
    return refused;
  }
  const auto chosen = to_stream_options(options);
  if (!chosen.ok()) return to_c(chosen.status());
  auto created = Streams::create(device->device, channel->channel, chosen.value());
  if (!created.ok()) return to_c(created.status());
  *streams = new fw_streams{*std::move(created), chosen.value().polled};
  return nullptr;
}

fw_status* fw_streams_open(fw_streams* streams, uint64_t number, fw_stream** stream) {
  if (fw_status* const refused = refuse_null(
          "open a stream", {{"streams", streams != nullptr}, {"stream", stream != nullptr}})) {
    return refused;
  }
  auto opened = streams->streams.open(number);
  if (!opened.ok()) return to_c(opened.status());
  *stream = new fw_stream{*std::move(opened)};
  return nullptr;
}

fw_status* fw_streams_tune(fw_streams* streams, uint64_t time_ns) {
  if (fw_status* const refused = refuse_null("tune streams", {{"streams", streams != nullptr}})) {
    return refused;
  }
  return to_c(streams->streams.tune(to_duration(time_ns)));
}

int fw_streams_poll(fw_streams* streams) {
  if (streams == nullptr || !streams->polled) return 0;
  Streams held = streams->streams;
  return held.poll() ? 1 : 0;
}

fw_status* fw_streams_descriptor(fw_streams* streams, int* descriptor) {
  constexpr const char* kOperation = "make a descriptor for streams";
  if (fw_status* const refused = refuse_null(
          kOperation, {{"streams", streams != nullptr}, {"descriptor", descriptor != nullptr}})) {
    return refused;
  }
  if (!streams->polled) {
    return to_c(Status::error(StatusCode::kFailedPrecondition, {kOperation},
                              "the device delivers what comes", "create the streams with polled"));
  }
  const auto made = streams->streams.descriptor();
  if (!made.ok()) return to_c(made.status());
  *descriptor = made.value();
  return nullptr;
}

int fw_streams_arm(fw_streams* streams) {
  if (streams == nullptr) return 0;
  if (!streams->polled) return 1;
  Streams held = streams->streams;
  return held.arm() ? 1 : 0;
}

void fw_streams_disarm(fw_streams* streams) {
  if (streams != nullptr && streams->polled) streams->streams.disarm();
}

void fw_streams_options(const fw_streams* streams, fw_stream_options* options) {
  if (streams == nullptr || options == nullptr) return;
  const farwrite::stream::Options used = streams->streams.options();
  fw_stream_options known = {};
  known.lend_from = used.lend_from;
  known.chunk = used.chunk;
  known.window = used.window;
  known.message_window = used.message_window;
  known.write_bound = used.write_bound;
  known.held = used.held;
  known.polled = used.polled ? 1 : 0;
  known.exact = 1;
  fill(*options, known);
}

void fw_streams_stats(const fw_streams* streams, fw_stream_stats* stats) {
  if (streams == nullptr || stats == nullptr) return;
  const farwrite::stream::Stats counted = streams->streams.stats();
  fw_stream_stats known = {};
  static_assert(sizeof(known) == sizeof(known.struct_size) + sizeof(counted));
  known.messages = counted.messages;
  known.message_bytes = counted.message_bytes;
  known.lent = counted.lent;
  known.lent_bytes = counted.lent_bytes;
  known.staged_bytes = counted.staged_bytes;
  known.aliased_bytes = counted.aliased_bytes;
  known.read_bytes = counted.read_bytes;
  known.held_back_bytes = counted.held_back_bytes;
  known.credits = counted.credits;
  known.waits = counted.waits;
  fill(*stats, known);
}

void fw_streams_release(fw_streams* streams) { delete streams; }

fw_status* fw_stream_write(fw_stream* stream, const fw_slice* slices, uint64_t count, fw_done done,
                           void* context) {
  constexpr const char* kOperation = "write to a stream";
  std::vector<Slice> all = to_slices(slices, count);
  if (fw_status* const refused =
          refuse_null(kOperation, {{"stream", stream != nullptr},
                                   farwrite::c_api::bytes_at("slices", slices, count),
                                   {"done", done != nullptr}})) {
    return refused;
  }
  for (const Slice& slice : all) {
    if (fw_status* const refused = refuse_slice(kOperation, slice)) return refused;
  }
  fw_stream held = *stream;
  held.stream.write(std::move(all), to_callback(done, context));
  return nullptr;
}

fw_status* fw_stream_read(fw_stream* stream, fw_on_read on_read, void* context) {
  if (fw_status* const refused = refuse_null(
          "read a stream", {{"stream", stream != nullptr}, {"on_read", on_read != nullptr}})) {
    return refused;
  }
  fw_stream held = *stream;
  held.stream.read(to_on_read(on_read, context));
  return nullptr;
}

fw_status* fw_stream_finish(fw_stream* stream, fw_done done, void* context) {
  if (fw_status* const refused = refuse_null(
          "finish a stream", {{"stream", stream != nullptr}, {"done", done != nullptr}})) {
    return refused;
  }
  fw_stream held = *stream;
  held.stream.finish(to_callback(done, context));
  return nullptr;
}

void fw_stream_abort(fw_stream* stream, int code, const char* reason) {
  if (stream == nullptr) return;
  const bool known = code > 0 && code <= static_cast<int>(StatusCode::kEndOfStream);
  const StatusCode why = known ? static_cast<StatusCode>(code) : StatusCode::kCancelled;
  const std::string_view said = reason == nullptr ? "" : reason;
  const bool is_sentence = said.find(": ") < said.rfind("; ") && said.rfind("; ") != said.npos;
  fw_stream held = *stream;
  held.stream.abort(is_sentence ? Status(why, std::string(said))
                                : Status::error(why, {"use a stream"},
                                                said.empty() ? "its program has aborted it" : said,
                                                "open another stream"));
}

void fw_stream_release(fw_stream* stream) { delete stream; }
