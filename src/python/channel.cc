#include "farwrite/channel.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "farwrite/internal/late.h"
#include "python/callback.h"
#include "python/counters.h"
#include "python/cuda_bytes.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/peer.h"
#include "python/plain.h"
#include "python/shared_object.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using Local = Held<MemoryRegion>;
using Remote = RemoteArrayRegion;
using Link = Held<Channel>;

// A smaller copy costs less than handing the GIL over and back, unless a GPU makes it.
constexpr std::size_t kCopyWithoutGilBytes = std::size_t{64} << 10;

template <typename Call>
PostOutcome post_buffer(const PythonBuffer& buffer, const Remote& region, Call&& call) {
  const bool on_gpu = buffer.on_gpu() || region.on_gpu();
  if (buffer.size() <= kCopyWithoutGilBytes && !on_gpu) return call();
  return without_gil(call);
}

bool is_of(const Remote& region, const Link& channel) {
  return fw_remote_is_of(region->handle(), channel->handle()) != 0;
}

// Of `buffer` into memory that was opened on `channel`.
PostOutcome post_write(const PythonBuffer& buffer, const Remote& target, std::uint64_t offset,
                       std::optional<std::uint32_t> tag, std::uint32_t lane) {
  return post_buffer(buffer, target, [&] {
    const ByteView bytes = buffer.bytes();
    PostOutcome posted;
    posted.status = tag ? fw_remote_write_notify(target->handle(), offset, nullptr, 0, bytes.data,
                                                 bytes.size, *tag, lane, &posted.completion)
                        : fw_remote_write(target->handle(), offset, bytes.data, bytes.size, lane,
                                          &posted.completion);
    return posted;
  });
}

PostOutcome post_read(const PythonBuffer& buffer, const Remote& source, std::uint64_t offset,
                      std::uint32_t lane) {
  return post_buffer(buffer, source, [&] {
    const MutableByteView bytes = buffer.mutable_bytes();
    PostOutcome posted;
    posted.status =
        fw_remote_read(source->handle(), offset, bytes.data, bytes.size, lane, &posted.completion);
    return posted;
  });
}

PostOutcome post_message(const Link& channel, const PythonBuffer& buffer, std::uint32_t tag,
                         std::uint32_t lane) {
  PostOutcome posted;
  posted.status = fw_channel_send(channel->handle(), buffer.bytes().data, buffer.size(), tag, lane,
                                  &posted.completion);
  return posted;
}

// Raises what comes of memory that was opened on another channel.
Completion refused(const Completion& completion) {
  raise_if_error(completion.wait(std::chrono::nanoseconds(0)));
  raise(Status(StatusCode::kInternal, "memory of another channel was not refused"));
}
Completion refused_write(Link& channel, const Remote& target) {
  return refused(channel->write(ByteView(), *target));
}
Completion refused_read(Link& channel, const Remote& source) {
  return refused(channel->read(MutableByteView(), *source));
}

Completion write_region(Link& channel, nb::handle source, const Remote& target,
                        std::uint64_t offset, std::optional<std::uint32_t> tag,
                        std::uint32_t lane) {
  PythonBuffer buffer = PythonBuffer::readable(source);
  if (!is_of(target, channel)) return refused_write(channel, target);
  return completion_of(post_write(buffer, target, offset, tag, lane), buffer);
}

Completion read_region(Link& channel, nb::handle destination, const Remote& source,
                       std::uint64_t offset, std::uint32_t lane) {
  PythonBuffer buffer = PythonBuffer::writable(destination);
  if (!is_of(source, channel)) return refused_read(channel, source);
  return completion_of(post_read(buffer, source, offset, lane), buffer);
}

Completion send_message(Link& channel, nb::handle message, std::uint32_t tag, std::uint32_t lane) {
  PythonBuffer buffer = PythonBuffer::readable(message);
  return completion_of(post_message(channel, buffer, tag, lane), buffer);
}

nb::object write_plain(Link& channel, nb::handle source, const Remote& target, nb::handle offset,
                       nb::handle tag, nb::handle lane) {
  const std::optional<std::uint64_t> start = plain_offset(offset);
  const std::optional<std::uint32_t> number = plain_word(tag);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!start || !where || (!number && !tag.is_none())) return nb::none();
  PlainBuffer buffer = PlainBuffer::readable(source);
  if (!buffer.valid()) return nb::none();
  const std::optional<std::uint64_t> place = target.place(buffer, *start);
  if (!place) return nb::none();
  if (!is_of(target, channel)) return nb::cast(refused_write(channel, target));
  return outcome_of(post_write(buffer, target, *place, number, *where), buffer);
}

nb::object read_plain(Link& channel, nb::handle destination, const Remote& source,
                      nb::handle offset, nb::handle lane) {
  const std::optional<std::uint64_t> start = plain_offset(offset);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!start || !where) return nb::none();
  PlainBuffer buffer = PlainBuffer::writable(destination);
  if (!buffer.valid()) return nb::none();
  const std::optional<std::uint64_t> place = source.place(buffer, *start);
  if (!place) return nb::none();
  if (!is_of(source, channel)) return nb::cast(refused_read(channel, source));
  return outcome_of(post_read(buffer, source, *place, *where), buffer);
}

PostOutcome post_tag(const Link& channel, std::uint32_t tag, std::uint32_t lane) {
  PostOutcome posted;
  posted.status = fw_channel_notify(channel->handle(), tag, lane, &posted.completion);
  return posted;
}

nb::object notify_plain(Link& channel, nb::handle tag, nb::handle lane) {
  const std::optional<std::uint32_t> number = plain_word(tag);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!number || !where) return nb::none();
  const PostOutcome posted = post_tag(channel, *number, *where);
  if (posted.status == nullptr && posted.completion == nullptr) return nb::bool_(true);
  return nb::cast(completion_of(posted));
}

nb::object send_plain(Link& channel, nb::handle message, nb::handle tag, nb::handle lane) {
  const std::optional<std::uint32_t> number = plain_word(tag);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!number || !where) return nb::none();
  PlainBuffer buffer = PlainBuffer::readable(message);
  if (!buffer.valid() || buffer.size() > channel.facts().max_message_bytes()) return nb::none();
  return outcome_of(post_message(channel, buffer, *number, *where), buffer);
}

ReadOnlyBytesArray alias(Link& channel, const Remote& source, std::uint64_t offset,
                         std::uint64_t length) {
  Alias alias =
      value_or_raise(without_gil([&] { return channel->alias(*source, offset, length); }));
  const auto* data = reinterpret_cast<const std::uint8_t*>(alias.data());
  const std::size_t size = alias.size();
  return view_bytes<ReadOnlyBytesArray>(data, size, std::move(alias));
}

CudaBytes alias_cuda(Link& channel, const Remote& source, std::uint64_t offset,
                     std::uint64_t length) {
  Alias alias =
      value_or_raise(without_gil([&] { return channel->alias(*source, offset, length); }));
  CudaBytes bytes{const_cast<std::byte*>(alias.data()),
                  alias.size(),
                  alias.kind().ordinal(),
                  /*writable=*/false,
                  {}};
  bytes.owner = nb::capsule(new Held<Alias>(std::move(alias)),
                            [](void* held) noexcept { delete static_cast<Held<Alias>*>(held); });
  return bytes;
}

// farwrite.Notification, a named tuple, and its tp_alloc, which the stable ABI gives by a call.
struct NotificationType {
  PyTypeObject* type;
  allocfunc allocate;
};
// Set once, when that module is imported, and never let go of.
std::atomic<const NotificationType*> notification_type = nullptr;

nb::object to_named_tuple(const fw_notification& seen) {
  // As tuple.__new__ makes it, without a tuple to make it from.
  const NotificationType& known = *notification_type.load(std::memory_order_acquire);
  nb::object made = nb::steal(known.allocate(known.type, 3));
  if (!made.is_valid()) throw nb::python_error();
  const auto set = [&](Py_ssize_t at, nb::object value) {
    PyTuple_SetItem(made.ptr(), at, value.release().ptr());
  };
  set(0, nb::int_(seen.tag));
  set(1, nb::int_(seen.lane));
  set(2, nb::bytes(seen.message, seen.message_bytes));
  return made;
}

// Python has no use for memory that a peer of another language lends with a message.
void drop_lent(const fw_notification& seen) {
  if (seen.lent != nullptr) fw_remote_release(seen.lent);
}

// What a handler of fw_channel_take() made: a tuple, or the exception that no tuple could be made.
// The handler takes the GIL first, if its thread has let go of it.
struct TakenTuple {
  GilRelease* released = nullptr;
  nb::object tuple;
  std::exception_ptr failure;
};

// Makes the tuple from the message where it is. No exception crosses the C ABI.
void take_tuple(void* context, const fw_notification* seen) noexcept {
  auto& made = *static_cast<TakenTuple*>(context);
  if (made.released != nullptr) made.released->end();
  try {
    made.tuple = to_named_tuple(*seen);
  } catch (...) {
    made.failure = std::current_exception();
  }
  drop_lent(*seen);
}

nb::object tuple_of(TakenTuple& made) {
  if (made.failure != nullptr) std::rethrow_exception(made.failure);
  return std::move(made.tuple);
}

nb::object wait_notification(Link& channel, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "wait_notification");
  const Channel handle = *channel;  // the Python object may go away meanwhile
  TakenTuple made;
  raise_if_error(wait_in_slices(limit, [&](std::chrono::nanoseconds slice, GilRelease& released) {
    made.released = &released;
    // For 0 the C ABI looks, and does not say that a handler takes the notifications.
    const auto least = std::max(slice, std::chrono::nanoseconds(1));
    int count = 0;
    fw_status* const ended = fw_channel_take(
        handle.handle(), static_cast<std::uint64_t>(least.count()), take_tuple, &made, &count);
    if (ended != nullptr) return taken(ended);
    if (count != 0) return Status();
    return farwrite::internal::late({"wait for a notification", handle.peer_name()},
                                    handle.peer_state(), "no notification arrived in time",
                                    "wait longer, or check whether the peer is alive");
  }));
  return tuple_of(made);
}

nb::object try_notification(Link& channel) {
  TakenTuple made;
  int count = 0;
  fw_status* const ended = fw_channel_take(channel->handle(), 0, take_tuple, &made, &count);
  if (ended != nullptr) raise(taken(ended));
  return count == 0 ? nb::none() : tuple_of(made);
}

// A handler of the C ABI, with a Callback as its context.
void call_python(void* context, const fw_notification* seen) noexcept {
  (*static_cast<const Callback*>(context))([&] { return nb::make_tuple(to_named_tuple(*seen)); });
  drop_lent(*seen);
}

void on_notification(Link& channel, std::optional<nb::callable> function) {
  constexpr std::uint64_t kFiveSeconds = 5'000'000'000;
  fw_channel* const handle = channel->handle();
  auto callback = function ? std::make_unique<Callback>(std::move(*function)) : nullptr;
  // Waits for a handler that runs, and that one may be waiting for the GIL.
  raise_if_error(without_gil([&] {
    if (callback == nullptr) {
      return taken(fw_channel_on_notification(handle, nullptr, nullptr, nullptr, kFiveSeconds));
    }
    return taken(fw_channel_on_notification(
        handle, call_python, callback.release(),
        [](void* context) { delete static_cast<Callback*>(context); }, kFiveSeconds));
  }));
}

Remote* lookup(Link& channel, const std::string& name, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  return new Remote(value_or_raise(wait_beside(
      [channel = *channel, name, limit]() mutable { return channel.lookup(name, limit); })));
}

Remote* open_region(Link& channel, nb::bytes descriptor, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  const RegionDescriptor parsed =
      value_or_raise(RegionDescriptor::from_bytes(ByteView(descriptor.c_str(), descriptor.size())));
  return new Remote(value_or_raise(wait_beside(
      [channel = *channel, parsed, limit]() mutable { return channel.open(parsed, limit); })));
}

Local* allocate_landing(Link& channel, std::uint64_t bytes, const std::string& kind) {
  const MemoryKind place = value_or_raise(MemoryKind::parse(kind));
  return new Local(value_or_raise(without_gil([&] { return channel->allocate(bytes, place); })));
}

void publish_to_peer(Link& channel, const std::string& name, const Local& region,
                     const std::string& description) {
  raise_if_error(without_gil([&] { return channel->publish(name, *region, description); }));
}

void close_channel(Link& channel, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  raise_if_error(without_gil([&] { return channel->close(limit); }));
}

constexpr const char* kCapsule = "fw_channel";

// The capsule has its own handle of the channel, and as context the device, which it keeps open.
void drop_capsule(PyObject* capsule) {
  auto* const exported = static_cast<fw_channel*>(PyCapsule_GetPointer(capsule, kCapsule));
  auto* const device = static_cast<PyObject*>(PyCapsule_GetContext(capsule));
  {  // closing may wait for handlers that need the GIL
    const nb::error_scope keep_error;
    const GilRelease released;
    fw_channel_release(exported);
  }
  Py_XDECREF(device);
}

nb::capsule as_capsule(const Link& channel, nb::object device) {
  fw_channel* const exported = fw_channel_share(channel->handle());
  PyObject* const capsule = PyCapsule_New(exported, kCapsule, &drop_capsule);
  if (capsule == nullptr) {
    fw_channel_release(exported);  // the channel has another handle, so this ends nothing
    throw nb::python_error();
  }
  auto made = nb::steal<nb::capsule>(capsule);
  PyCapsule_SetContext(capsule, device.release().ptr());  // fails for another kind of object alone
  return made;
}

}  // namespace

void bind_channel(nb::module_& module) {
  nb::class_<Link>(module, "Channel")
      .def("write", &write_region, nb::arg("source"), nb::arg("target"), nb::arg("offset"),
           nb::arg("tag").none(), nb::arg("lane"))
      .def("read", &read_region, nb::arg("destination"), nb::arg("source"), nb::arg("offset"),
           nb::arg("lane"))
      .def("write_plain", &write_plain, nb::arg("source").none(), nb::arg("target"),
           nb::arg("offset").none(), nb::arg("tag").none(), nb::arg("lane").none(),
           nb::sig("def write_plain(self, source: object, target: RemoteRegion, offset: object, "
                   "tag: object, lane: object) -> typing.Literal[True] | Completion | None"),
           "The same calls for plain arguments; None if they are not, and nothing was posted.")
      .def(
          "read_plain", &read_plain, nb::arg("destination").none(), nb::arg("source"),
          nb::arg("offset").none(), nb::arg("lane").none(),
          nb::sig("def read_plain(self, destination: object, source: RemoteRegion, offset: object, "
                  "lane: object) -> typing.Literal[True] | Completion | None"))
      .def("notify_plain", &notify_plain, nb::arg("tag").none(), nb::arg("lane").none(),
           nb::sig("def notify_plain(self, tag: object, lane: object) -> "
                   "typing.Literal[True] | Completion | None"))
      .def("send_plain", &send_plain, nb::arg("message").none(), nb::arg("tag").none(),
           nb::arg("lane").none(),
           nb::sig("def send_plain(self, message: object, tag: object, lane: object) -> "
                   "typing.Literal[True] | Completion | None"))
      .def("flush", [](Link& channel) { return channel->flush(); })
      .def("alias", &alias, nb::arg("source"), nb::arg("offset"), nb::arg("length"))
      .def("alias_cuda", &alias_cuda, nb::arg("source"), nb::arg("offset"), nb::arg("length"))
      .def(
          "notify",
          [](Link& channel, std::uint32_t tag, std::uint32_t lane) {
            return completion_of(post_tag(channel, tag, lane));
          },
          nb::arg("tag"), nb::arg("lane"))
      .def("send", &send_message, nb::arg("message"), nb::arg("tag"), nb::arg("lane"))
      .def("max_message_bytes",
           [](const Link& channel) { return channel.facts().max_message_bytes(); })
      .def("wait_notification", &wait_notification, nb::arg("timeout").none(),
           nb::sig("def wait_notification(self, timeout: float | None) -> typing.Any"))
      .def("try_notification", &try_notification,
           nb::sig("def try_notification(self) -> typing.Any"))
      .def("on_notification", &on_notification, nb::arg("function").none(),
           nb::sig("def on_notification(self, function: "
                   "collections.abc.Callable[[typing.Any], object] | None) -> None"))
      .def("notification_descriptor",
           [](Link& channel) { return value_or_raise(channel->notification_descriptor()); })
      .def("arm_notifications",
           [](Link& channel) { return value_or_raise(channel->arm_notifications()); })
      .def("allocate", &allocate_landing, nb::arg("bytes"), nb::arg("kind"))
      .def("publish", &publish_to_peer, nb::arg("name"), nb::arg("region"), nb::arg("description"))
      .def("lookup", &lookup, nb::arg("name"), nb::arg("timeout").none())
      .def("open", &open_region, nb::arg("descriptor"), nb::arg("timeout").none())
      .def("peer", [](const Link& channel) { return to_dict(channel.facts().peer()); })
      .def("peer_state",
           [](const Link& channel) { return std::string(to_string(channel.facts().peer_state())); })
      .def("stats", [](const Link& channel) { return counts_of(channel->stats()); })
      .def("as_capsule", &as_capsule, nb::arg("device"),
           nb::sig("def as_capsule(self, device: Device) -> object"))
      .def("close", &close_channel, nb::arg("timeout").none());
  module.def(
      "set_notification_type",
      [](nb::type_object type) {
        if (!PyObject_IsSubclass(type.ptr(), reinterpret_cast<PyObject*>(&PyTuple_Type))) {
          throw nb::type_error("set_notification_type: give a named tuple");
        }
        auto* const given = reinterpret_cast<PyTypeObject*>(type.ptr());
        auto made = std::make_unique<const NotificationType>(NotificationType{
            given, reinterpret_cast<allocfunc>(PyType_GetSlot(given, Py_tp_alloc))});
        const NotificationType* none = nullptr;
        if (!notification_type.compare_exchange_strong(none, made.get())) return;  // a reload
        (void)made.release();
        type.release();
      },
      nb::arg("type"), nb::sig("def set_notification_type(type: type) -> None"),
      "Sets the named tuple (tag, lane, message) that notifications are. The first one stays.");
}

}  // namespace farwrite::python
