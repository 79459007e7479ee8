// The note of an edge, which comes with a graph that another task partitioned.
#include <string>

#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "edges/edge_note.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "peer_text.h"
#include "target.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace farwrite::fuzz {
namespace {

using plugin::EdgeNote;

bool same(const tensorflow::PartialTensorShape& one, const tensorflow::PartialTensorShape& other) {
  return one.IsIdenticalTo(other);
}

void run(ByteView input) {
  const std::optional<EdgeNote> note = plugin::decode_note(std::string(text_of(input)));
  if (!note) return;
  // Not the bytes: protobuf writes the entries of a map in any order.
  const std::optional<EdgeNote> again = plugin::decode_note(plugin::encode(*note));
  require(again.has_value(), "what we encode can be decoded");
  require(note->target == again->target && note->producer == again->producer &&
              note->output == again->output && note->dtype == again->dtype &&
              note->control == again->control && note->shape_known == again->shape_known &&
              note->consumers == again->consumers &&
              note->more_consumers == again->more_consumers && note->ref == again->ref &&
              note->variable == again->variable,
          "a note is the same on its way through us");
  require((!note->shape_known || same(note->shape, again->shape)) &&
              same(note->pinned, again->pinned) && same(note->bound, again->bound),
          "its shapes are the same on their way through us");
}

Seeds seeds() {
  EdgeNote note;
  note.target = "/job:worker/replica:0/task:0/device:CPU:0";
  note.producer = {"weights/read", "Identity"};
  note.dtype = tensorflow::DT_FLOAT;
  note.shape_known = true;
  note.shape = tensorflow::PartialTensorShape({-1, 3});
  note.bound = tensorflow::PartialTensorShape({64, 3});
  note.consumers = {{"MatMul", "MatMul"}};
  note.more_consumers = 2;
  note.variable = true;
  // In one order, so that the seed is the same at every call.
  tensorflow::NameAttrList message;
  require(message.ParseFromString(plugin::encode(note)), "a note is a NameAttrList");
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    require(message.SerializeToCodedStream(&coded), "a message can be written");
  }
  return {{"note", bytes_of(bytes)}};
}

// Or protobuf would write a line about every string that is no UTF-8, which takes nearly all the
// time.
[[maybe_unused]] const bool kQuiet = (absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal), true);
[[maybe_unused]] const bool kAdded = add_target({"edge_note", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
