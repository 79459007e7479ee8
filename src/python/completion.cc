#include "farwrite/completion.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <utility>

#include "python/callback.h"
#include "python/errors.h"
#include "python/module.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

void wait_for_completion(const Completion& completion, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "wait");
  if (completion.done()) return raise_if_error(completion.wait(std::chrono::nanoseconds(0)));
  raise_if_error(wait_in_slices(
      limit, [&](std::chrono::nanoseconds slice) { return completion.wait(slice); }));
}

// Calls function(code, message) once, in the thread that ends the operation.
void on_done(const Completion& completion, nb::callable function) {
  auto callback = [function = Callback(std::move(function))](const Status& status) {
    function([&] { return nb::make_tuple(static_cast<int>(status.code()), sentence_of(status)); });
  };
  without_gil([&] { completion.on_done(std::move(callback)); });
}

}  // namespace

void bind_completion(nb::module_& module) {
  nb::class_<Completion>(module, "Completion")
      .def(
          "__init__", [](Completion* self) { new (self) Completion(Status()); },
          "Of an operation that has succeeded.")
      .def("done", &Completion::done)
      .def("settled", &Completion::settled)
      .def("wait", &wait_for_completion, nb::arg("timeout").none() = nb::none(),
           nb::sig("def wait(self, timeout: float | None = None) -> None"))
      .def("cancel",
           [](const Completion& completion) { without_gil([&] { completion.cancel(); }); })
      .def(
          "on_done", &on_done, nb::arg("function"),
          nb::sig(
              "def on_done(self, function: collections.abc.Callable[[int, str], object]) -> None"));
}

}  // namespace farwrite::python
