// What the C ABI describes as JSON, as Python's objects.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "farwrite/c_status.h"
#include "farwrite/internal/bridge.h"
#include "python/errors.h"
#include "python/gil.h"

namespace farwrite::python {

using Text = farwrite::internal::Gathered<std::string>;

// A fw_text_handler: keeps the text in the Text of its context.
void keep_text(void* context, const char* text, std::uint64_t bytes) noexcept;

// The value of one JSON text. Bytes that are no UTF-8, as names of a machine's devices may have,
// are replaced.
nanobind::object parse_json(const std::string& text);

// Calls `describe(handler, context)` without the GIL, which gives a status of the C ABI, and parses
// the text that it passes. Raises its error.
template <typename Describe>
nanobind::object described(const Describe& describe) {
  Text text;
  raise_if_error(without_gil([&] { return taken(describe(keep_text, &text)); }));
  return parse_json(text.take());
}

}  // namespace farwrite::python
