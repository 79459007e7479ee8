// Records: what two plug-ins tell each other, in the form of core/fields.h: each message lists its
// fields once.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/fields.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace farwrite::plugin {

// Appends the message to `text`.
template <typename Message>
void append_record(const Message& message, std::string* text) {
  struct TextSink {
    std::string* text;
    void bytes(ByteView raw) { text->append(reinterpret_cast<const char*>(raw.data), raw.size); }
  } sink{text};
  core::write(message, sink);
}

template <typename Message>
std::string to_record(const Message& message, std::size_t expected_bytes) {
  std::string text;
  text.reserve(expected_bytes);
  append_record(message, &text);
  return text;
}

// Views in the message point into `bytes`. False if these are malformed.
template <typename Message>
bool from_record(std::string_view bytes, Message&& message) {
  core::FieldReader reader({bytes.data(), bytes.size()});
  reader(message);
  return reader.ok() && reader.remaining() == 0;
}

// A shape behind its rank, which another field holds.
struct ShapeField {
  tensorflow::TensorShape& shape;
  const std::uint8_t& rank;  // read before the shape

  template <typename Wire>
  void fields(Wire& wire) {
    for (int axis = 0; axis < rank && wire.ok(); ++axis) {
      std::int64_t size = 0;
      if constexpr (!Wire::kReads) size = shape.dim_size(axis);
      wire(size);
      if constexpr (Wire::kReads) {
        wire.require(shape.AddDimWithStatus(size).ok(), "no shape has this size");
      }
    }
  }
};

}  // namespace farwrite::plugin
