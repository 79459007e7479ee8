#include "farwrite/tensor.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
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

// A receiver, and what its errors name.
struct NamedReceiver {
  TensorReceiver end;
  std::string name;
  std::string peer_name;
};
using Receiver = Held<NamedReceiver>;
using Sender = Held<TensorSender>;
using Dims = std::vector<std::uint64_t>;

// A received tensor.
struct ReceivedHandle {
  struct Release {
    void operator()(fw_tensor* tensor) const { fw_tensor_release(tensor); }
  };

  std::unique_ptr<fw_tensor, Release> tensor;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};
using Bytes = Held<ReceivedHandle>;  // exports its bytes to one array of NumPy, which keeps it
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
  TensorReceiver end =
      value_or_raise(without_gil([&] { return TensorReceiver::open(*channel, name, options); }));
  return new Receiver({std::move(end), name, channel->peer_name()});
}

// Takes the tensor over.
TensorTuple to_tuple(fw_tensor* received) {
  ReceivedHandle arrived;
  arrived.tensor.reset(received);
  fw_tensor_info info;  // the library fills all of it
  info.struct_size = sizeof(info);
  fw_tensor_get(received, &info);
  arrived.data = info.data;
  arrived.bytes = info.bytes;
  nb::object dtype = nb::str(info.spec.dtype);
  nb::object dims = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(info.spec.rank)));
  if (!dims.is_valid()) throw nb::python_error();
  for (std::uint32_t axis = 0; axis < info.spec.rank; ++axis) {
    PyTuple_SetItem(dims.ptr(), static_cast<Py_ssize_t>(axis),
                    nb::int_(info.spec.dims[axis]).release().ptr());
  }
  return nb::make_tuple(nb::cast(new Bytes(std::move(arrived)), nb::rv_policy::take_ownership),
                        std::move(dtype), std::move(dims));
}

int export_bytes(PyObject* self, Py_buffer* view, int flags) {
  const ReceivedHandle& arrived = nb::inst_ptr<Bytes>(self)->facts();
  return PyBuffer_FillInfo(view, self, const_cast<void*>(arrived.data),
                           static_cast<Py_ssize_t>(arrived.bytes), /*readonly=*/1, flags);
}

PyType_Slot bytes_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&export_bytes)},
                             {0, nullptr}};

// The next tensor, or null if none came in time.
Result<fw_tensor*> take(const NamedReceiver& edge, std::chrono::nanoseconds timeout) {
  fw_tensor* tensor = nullptr;
  fw_status* const failed =
      fw_receiver_receive(edge.end.handle(), static_cast<std::uint64_t>(timeout.count()), &tensor);
  if (failed != nullptr) return taken(failed);
  return tensor;
}

TensorTuple receive(Receiver& receiver, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "receive");
  NamedReceiver& edge = *receiver;
  return to_tuple(value_or_raise(
      wait_in_slices(limit, [&](std::chrono::nanoseconds slice) -> Result<fw_tensor*> {
        Result<fw_tensor*> next = take(edge, slice);
        if (!next.ok() || next.value() != nullptr) return next;
        // The library knows whether the peer is silent.
        if (Status late = edge.end.wait(std::chrono::nanoseconds(0)); !late.ok()) return late;
        return Status::error(StatusCode::kDeadlineExceeded, {"receive a tensor", edge.peer_name},
                             "no tensor of \"" + edge.name + "\" arrived in time",
                             "wait longer, or check whether the peer is alive");
      })));
}

std::optional<TensorTuple> try_receive(Receiver& receiver) {
  const NamedReceiver& edge = *receiver;
  fw_tensor* const tensor =
      value_or_raise(without_gil([&] { return take(edge, std::chrono::nanoseconds(0)); }));
  if (tensor == nullptr) return std::nullopt;
  return to_tuple(tensor);
}

// Whether there is something to take or to be told; from any thread, without looking for signals.
bool wait_arrival(Receiver& receiver, double timeout) {
  const auto limit = to_timeout(timeout);
  const Status waited = without_gil([&] { return receiver->end.wait(limit); });
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

fw_tensor_spec to_spec(const std::string& dtype, std::uint32_t item_bytes, std::size_t rank) {
  fw_tensor_spec spec = {};
  spec.dtype = c_text("send a tensor", "its dtype", dtype);
  spec.item_bytes = item_bytes;
  spec.rank = static_cast<std::uint32_t>(rank);
  return spec;
}

// Always without the GIL: a thread that holds the edge may want it, to end another operation.
// Raises a refusal.
PostOutcome post_tensor(const Sender& sender, const PythonBuffer& buffer,
                        const fw_tensor_spec& spec, std::chrono::nanoseconds limit) {
  fw_sender* const handle = sender->handle();
  PostOutcome posted;
  raise_if_error(wait_in_slices(limit, [&](std::chrono::nanoseconds slice) {
    // A slice of 0 would mean not to wait, and fail otherwise.
    if (limit.count() > 0) slice = std::max(slice, std::chrono::nanoseconds(1));
    return taken(fw_sender_send(handle, &spec, buffer.bytes().data, buffer.size(),
                                static_cast<std::uint64_t>(slice.count()), &posted.completion));
  }));
  return posted;
}

// The operation, unless it has failed meanwhile: the caller gets that at once.
Completion sent(PostOutcome posted, PythonBuffer& buffer) {
  Completion completion = completion_of(posted, buffer);
  if (completion.done()) raise_if_error(completion.wait(std::chrono::nanoseconds(0)));
  return completion;
}

Completion send_tensor(Sender& sender, nb::handle source, const std::string& dtype,
                       std::uint32_t item_bytes, Dims dims, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "send");
  fw_tensor_spec spec = to_spec(dtype, item_bytes, dims.size());
  std::copy_n(dims.data(), std::min<std::size_t>(dims.size(), FW_MAX_RANK), spec.dims);
  PythonBuffer buffer = PythonBuffer::readable(source);
  return sent(post_tensor(sender, buffer, spec, limit), buffer);
}

// None if the array is not plain, and nothing was sent.
nb::object send_plain(Sender& sender, nb::handle source, const std::string& dtype,
                      nb::handle timeout) {
  const auto limit = to_timeout(timeout, "send");
  PlainBuffer buffer = PlainBuffer::readable(source);
  if (!buffer.valid()) return nb::none();
  const Py_buffer& view = buffer.view();
  const auto rank = static_cast<std::size_t>(view.ndim);
  fw_tensor_spec spec = to_spec(dtype, static_cast<std::uint32_t>(view.itemsize), rank);
  std::copy_n(view.shape, std::min<std::size_t>(rank, FW_MAX_RANK), spec.dims);
  const PostOutcome posted = post_tensor(sender, buffer, spec, limit);
  if (posted.completion == nullptr) return nb::bool_(true);
  return nb::cast(sent(posted, buffer));
}

Counts receiver_stats(Receiver& receiver) {
  return counts_of(without_gil([&] { return receiver->end.stats(); }));
}

Counts sender_stats(Sender& sender) {
  return counts_of(without_gil([&] { return sender->stats(); }));
}

}  // namespace

void bind_tensor(nb::module_& module) {
  module.attr("MAX_SLOTS") = kMaxSlots;
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
             raise_if_error(without_gil([&] { return receiver->end.reset(); }));
           })
      .def("stats", &receiver_stats)
      .def(
          "close",
          [](Receiver& receiver, std::optional<double> timeout) {
            const auto limit = to_timeout(timeout);
            raise_if_error(without_gil([&] { return receiver->end.close(limit); }));
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
      .def("stats", &sender_stats)
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
