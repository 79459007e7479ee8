#include "transfer/tensor.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/counters.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/plain.h"
#include "python/shared_object.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using Receiver = Held<TensorReceiver>;
using Sender = Held<TensorSender>;
using Dims = std::vector<std::uint64_t>;
using Bytes = Held<ReceivedTensor>;  // exports its bytes to one array of NumPy, which keeps it
// The bytes, dtype and dims.
using TensorTuple = nb::typed<nb::tuple, Bytes, nb::str, nb::typed<nb::tuple, int, nb::ellipsis>>;

EdgeKind parse_kind(const std::string& name) {
  for (const EdgeKind kind : {EdgeKind::kStatic, EdgeKind::kBounded, EdgeKind::kDynamic}) {
    if (name == to_string(kind)) return kind;
  }
  raise(Status(StatusCode::kInvalidArgument,
               "kind '" + name + "' of edge is unknown; use 'static', 'bounded' or 'dynamic'"));
}

Receiver* open_receiver(Held<Channel>& channel, const std::string& name, const std::string& kind,
                        std::string dtype, std::uint32_t item_bytes, Dims dims,
                        std::uint64_t max_bytes, std::uint32_t slots, std::uint32_t lane,
                        bool copy) {
  ReceiverOptions options;
  options.kind = parse_kind(kind);
  options.spec = {std::move(dtype), item_bytes, std::move(dims)};
  options.max_bytes = max_bytes;
  options.slots = slots;
  options.lane = lane;
  options.copy_offers = copy;
  return new Receiver(
      value_or_raise(without_gil([&] { return TensorReceiver::open(*channel, name, options); })));
}

TensorTuple to_tuple(ReceivedTensor tensor) {
  const TensorSpec& spec = tensor.spec();
  nb::object dtype = nb::cast(spec.dtype);
  nb::object dims = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(spec.dims.size())));
  if (!dims.is_valid()) throw nb::python_error();
  for (std::size_t axis = 0; axis < spec.dims.size(); ++axis) {
    PyTuple_SetItem(dims.ptr(), static_cast<Py_ssize_t>(axis),
                    nb::int_(spec.dims[axis]).release().ptr());
  }
  return nb::make_tuple(nb::cast(new Bytes(std::move(tensor)), nb::rv_policy::take_ownership),
                        std::move(dtype), std::move(dims));
}

int export_bytes(PyObject* self, Py_buffer* view, int flags) {
  const ReceivedTensor& tensor = nb::inst_ptr<Bytes>(self)->facts();
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(tensor.data()),
                           static_cast<Py_ssize_t>(tensor.size()), /*readonly=*/1, flags);
}

PyType_Slot bytes_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&export_bytes)},
                             {0, nullptr}};

TensorTuple receive(Receiver& receiver, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "receive");
  return to_tuple(value_or_raise(wait_in_slices(
      limit, [&](std::chrono::nanoseconds slice) { return receiver->receive(slice); })));
}

std::optional<TensorTuple> try_receive(Receiver& receiver) {
  auto taken = value_or_raise(without_gil([&] { return receiver->try_receive(); }));
  if (!taken.has_value()) return std::nullopt;
  return to_tuple(*std::move(taken));
}

// Whether there is something to take or to be told; from any thread, without looking for signals.
bool wait_arrival(Receiver& receiver, double timeout) {
  const auto limit = to_timeout(timeout);
  const Status waited = without_gil([&] { return receiver->wait(limit); });
  if (waited.code() == StatusCode::kDeadlineExceeded) return false;
  raise_if_error(waited);
  return true;
}

Sender* open_sender(Held<Device>& device, Held<Channel>& channel, const std::string& name,
                    std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  // Not in slices: one that ends between claiming the edge and opening its slots loses the edge.
  return new Sender(value_or_raise(wait_beside([device = *device, channel = *channel, name, limit] {
    return TensorSender::open(device, channel, name, limit);
  })));
}

// Always without the GIL: a thread that holds the edge may want it, to end another operation.
Completion post_tensor(Sender& sender, nb::handle source, const PythonBuffer& buffer,
                       const TensorSpec& spec, std::chrono::nanoseconds limit) {
  const auto attempt = [&](std::chrono::nanoseconds slice) -> Result<Completion> {
    // A slice of 0 would mean not to wait, and fail otherwise.
    if (limit.count() > 0) slice = std::max(slice, std::chrono::nanoseconds(1));
    Completion sent = sender->send(spec, buffer.bytes(), slice);
    const Status refused = sent.done() ? sent.wait(std::chrono::nanoseconds(0)) : Status();
    if (refused.code() == StatusCode::kDeadlineExceeded) return refused;
    return sent;
  };
  Completion posted = keep(value_or_raise(wait_in_slices(limit, attempt)), source);
  // The caller gets a refusal at once.
  if (posted.done()) raise_if_error(posted.wait(std::chrono::nanoseconds(0)));
  return posted;
}

Completion send_tensor(Sender& sender, nb::handle source, std::string dtype,
                       std::uint32_t item_bytes, Dims dims, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "send");
  const TensorSpec spec{std::move(dtype), item_bytes, std::move(dims)};
  return post_tensor(sender, source, PythonBuffer::readable(source), spec, limit);
}

// None if the array is not plain, and nothing was sent.
nb::object send_plain(Sender& sender, nb::handle source, std::string dtype, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "send");
  const PlainBuffer buffer = PlainBuffer::readable(source);
  if (!buffer.valid()) return nb::none();
  const Py_buffer& view = buffer.view();
  const TensorSpec spec{std::move(dtype), static_cast<std::uint32_t>(view.itemsize),
                        Dims(view.shape, view.shape + view.ndim)};
  return outcome_of(post_tensor(sender, source, buffer, spec, limit));
}

template <typename End>
Counts end_stats(End& end) {
  return counts_of(without_gil([&] { return end->stats(); }));
}

}  // namespace

void bind_tensor(nb::module_& module) {
  const nb::class_<Bytes> bytes(module, "ReceivedBytes", nb::type_slots(bytes_slots));

  nb::class_<Receiver>(module, "TensorReceiver")
      .def_static("open", &open_receiver, nb::arg("channel"), nb::arg("name"), nb::arg("kind"),
                  nb::arg("dtype"), nb::arg("item_bytes"), nb::arg("dims"), nb::arg("max_bytes"),
                  nb::arg("slots"), nb::arg("lane"), nb::arg("copy"))
      .def("receive", &receive, nb::arg("timeout").none())
      .def("try_receive", &try_receive)
      .def("wait", &wait_arrival, nb::arg("timeout"))
      .def("reset",
           [](Receiver& receiver) {
             raise_if_error(without_gil([&] { return receiver->reset(); }));
           })
      .def("stats", &end_stats<Receiver>)
      .def(
          "close",
          [](Receiver& receiver, std::optional<double> timeout) {
            const auto limit = to_timeout(timeout);
            raise_if_error(without_gil([&] { return receiver->close(limit); }));
          },
          nb::arg("timeout").none());

  nb::class_<Sender>(module, "TensorSender")
      .def_static("open", &open_sender, nb::arg("device"), nb::arg("channel"), nb::arg("name"),
                  nb::arg("timeout").none())
      .def("kind",
           [](const Sender& sender) { return std::string(to_string(sender.facts().kind())); })
      .def("dtype", [](const Sender& sender) { return sender.facts().announced().dtype; })
      .def("dims", [](const Sender& sender) { return sender.facts().announced().dims; })
      .def("send", &send_tensor, nb::arg("source"), nb::arg("dtype"), nb::arg("item_bytes"),
           nb::arg("dims"), nb::arg("timeout").none())
      .def("send_plain", &send_plain, nb::arg("source").none(), nb::arg("dtype"),
           nb::arg("timeout").none(),
           nb::sig("def send_plain(self, source: object, dtype: str, timeout: float | None) -> "
                   "typing.Literal[True] | Completion | None"),
           "The same for a plain array; None if it is not, and nothing was sent.")
      .def("stats", &end_stats<Sender>)
      .def("abandon",
           [](Sender& sender) { raise_if_error(without_gil([&] { return sender->abandon(); })); })
      .def(
          "close",
          [](Sender& sender, std::optional<double> timeout) {
            raise_if_error(wait_in_slices(to_timeout(timeout), [&](std::chrono::nanoseconds slice) {
              return sender->close(slice);
            }));
          },
          nb::arg("timeout").none());
}

}  // namespace farwrite::python
