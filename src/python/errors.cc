#include "python/errors.h"

#include <nanobind/nanobind.h>

namespace farwrite::python {

namespace nb = nanobind;

[[noreturn]] void raise(const Status& status) {
  const nb::object error =
      nb::module_::import_("farwrite.errors")
          .attr("from_status")(static_cast<int>(status.code()),
                               nb::str(status.message().data(), status.message().size()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace farwrite::python
