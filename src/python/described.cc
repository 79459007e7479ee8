#include "python/described.h"

namespace farwrite::python {

namespace nb = nanobind;

void keep_text(void* context, const char* text, std::uint64_t bytes) noexcept {
  Text::into(context, [&](std::string& all) { all.assign(text, bytes); });
}

nb::object parse_json(const std::string& text) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw nb::python_error();
  return nb::module_::import_("json").attr("loads")(nb::steal(decoded));
}

}  // namespace farwrite::python
