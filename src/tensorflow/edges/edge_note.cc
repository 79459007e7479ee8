#include "edges/edge_note.h"

#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/graph/graph.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

constexpr std::size_t kMaxConsumers = 8;

using Attributes = google::protobuf::Map<std::string, tf::AttrValue>;

tf::PartialTensorShape shape_of(const Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || !tf::PartialTensorShape::IsValid(found->second.shape())) {
    return {};
  }
  return tf::PartialTensorShape(found->second.shape());
}

const tf::AttrValue& value_of(const Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? tf::AttrValue::default_instance() : found->second;
}

}  // namespace

void EdgeNote::add_consumer(const tf::Node& node) {
  const NodeName consumer(node.name(), node.type_string());
  for (const NodeName& known : consumers) {
    if (known == consumer) return;
  }
  if (consumers.size() < kMaxConsumers) {
    consumers.push_back(consumer);
  } else {
    ++more_consumers;
  }
}

std::string encode(const EdgeNote& note) {
  tf::NameAttrList message;
  message.set_name(note.producer.first);
  Attributes& attributes = *message.mutable_attr();
  tf::SetAttrValue(note.target, &attributes["target"]);
  tf::SetAttrValue(note.producer.second, &attributes["op"]);
  tf::SetAttrValue(note.output, &attributes["output"]);
  tf::SetAttrValue(note.dtype, &attributes["dtype"]);
  tf::SetAttrValue(note.control, &attributes["control"]);
  if (note.shape_known) tf::SetAttrValue(note.shape, &attributes["shape"]);
  if (!note.pinned.unknown_rank()) tf::SetAttrValue(note.pinned, &attributes["pinned"]);
  if (!note.bound.unknown_rank()) tf::SetAttrValue(note.bound, &attributes["bound"]);
  auto* const consumers = attributes["consumers"].mutable_list();
  for (const auto& [name, op] : note.consumers) {
    consumers->add_s(name);
    consumers->add_s(op);
  }
  tf::SetAttrValue(static_cast<std::int64_t>(note.more_consumers), &attributes["more"]);
  tf::SetAttrValue(note.ref, &attributes["ref"]);
  tf::SetAttrValue(note.variable, &attributes["variable"]);
  return message.SerializeAsString();
}

std::optional<EdgeNote> decode_note(const std::string& bytes) {
  tf::NameAttrList message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  const Attributes& attributes = message.attr();
  EdgeNote note;
  note.producer = {message.name(), value_of(attributes, "op").s()};
  note.target = value_of(attributes, "target").s();
  note.output = static_cast<int>(value_of(attributes, "output").i());
  note.dtype = value_of(attributes, "dtype").type();
  note.control = value_of(attributes, "control").b();
  note.shape_known = attributes.contains("shape");
  note.shape = shape_of(attributes, "shape");
  note.pinned = shape_of(attributes, "pinned");
  note.bound = shape_of(attributes, "bound");
  const auto& consumers = value_of(attributes, "consumers").list();
  for (int i = 0; i + 1 < consumers.s_size(); i += 2) {
    note.consumers.emplace_back(consumers.s(i), consumers.s(i + 1));
  }
  note.more_consumers = static_cast<std::uint64_t>(value_of(attributes, "more").i());
  note.ref = value_of(attributes, "ref").b();
  note.variable = value_of(attributes, "variable").b();
  return note;
}

}  // namespace farwrite::plugin
