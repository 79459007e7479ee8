#include "device/channel.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "c_api/handles.h"
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
Completion post_buffer(const PythonBuffer& buffer, const Remote& region, Call&& call) {
  const bool on_gpu = buffer.on_gpu() || region->kind().on_gpu();
  if (buffer.size() <= kCopyWithoutGilBytes && !on_gpu) return call();
  return without_gil(call);
}

// Of `source`, whose bytes are in `buffer`.
Completion post_write(Link& channel, nb::handle source, const PythonBuffer& buffer,
                      const Remote& target, std::uint64_t offset, std::optional<std::uint32_t> tag,
                      std::uint32_t lane) {
  Completion posted = post_buffer(buffer, target, [&] {
    return tag ? channel->write_with_notify(buffer.bytes(), *target, offset, *tag, lane)
               : channel->write(buffer.bytes(), *target, offset, lane);
  });
  return keep(std::move(posted), source);
}

Completion post_read(Link& channel, nb::handle destination, const PythonBuffer& buffer,
                     const Remote& source, std::uint64_t offset, std::uint32_t lane) {
  Completion posted = post_buffer(
      buffer, source, [&] { return channel->read(buffer.mutable_bytes(), *source, offset, lane); });
  return keep(std::move(posted), destination);
}

Completion write_region(Link& channel, nb::handle source, const Remote& target,
                        std::uint64_t offset, std::optional<std::uint32_t> tag,
                        std::uint32_t lane) {
  return post_write(channel, source, PythonBuffer::readable(source), target, offset, tag, lane);
}

Completion read_region(Link& channel, nb::handle destination, const Remote& source,
                       std::uint64_t offset, std::uint32_t lane) {
  return post_read(channel, destination, PythonBuffer::writable(destination), source, offset, lane);
}

Completion send_message(Link& channel, nb::handle message, std::uint32_t tag, std::uint32_t lane) {
  const PythonBuffer buffer = PythonBuffer::readable(message);
  return keep(channel->send(buffer.bytes(), tag, lane), message);
}

nb::object write_plain(Link& channel, nb::handle source, const Remote& target, nb::handle offset,
                       nb::handle tag, nb::handle lane) {
  const std::optional<std::uint64_t> start = plain_offset(offset);
  const std::optional<std::uint32_t> number = plain_word(tag);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!start || !where || (!number && !tag.is_none())) return nb::none();
  const PlainBuffer buffer = PlainBuffer::readable(source);
  if (!buffer.valid()) return nb::none();
  const std::optional<std::uint64_t> place = target.place(buffer, *start);
  if (!place) return nb::none();
  return outcome_of(post_write(channel, source, buffer, target, *place, number, *where));
}

nb::object read_plain(Link& channel, nb::handle destination, const Remote& source,
                      nb::handle offset, nb::handle lane) {
  const std::optional<std::uint64_t> start = plain_offset(offset);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!start || !where) return nb::none();
  const PlainBuffer buffer = PlainBuffer::writable(destination);
  if (!buffer.valid()) return nb::none();
  const std::optional<std::uint64_t> place = source.place(buffer, *start);
  if (!place) return nb::none();
  return outcome_of(post_read(channel, destination, buffer, source, *place, *where));
}

nb::object notify_plain(Link& channel, nb::handle tag, nb::handle lane) {
  const std::optional<std::uint32_t> number = plain_word(tag);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!number || !where) return nb::none();
  return outcome_of(channel->notify(*number, *where));
}

nb::object send_plain(Link& channel, nb::handle message, nb::handle tag, nb::handle lane) {
  const std::optional<std::uint32_t> number = plain_word(tag);
  const std::optional<std::uint32_t> where = plain_word(lane);
  if (!number || !where) return nb::none();
  const PlainBuffer buffer = PlainBuffer::readable(message);
  if (!buffer.valid() || buffer.size() > channel.facts().max_message_bytes()) return nb::none();
  return outcome_of(keep(channel->send(buffer.bytes(), *number, *where), message));
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

nb::object to_named_tuple(const Notification& notification) {
  // As tuple.__new__ makes it, without a tuple to make it from.
  const NotificationType& known = *notification_type.load(std::memory_order_acquire);
  nb::object made = nb::steal(known.allocate(known.type, 3));
  if (!made.is_valid()) throw nb::python_error();
  const auto set = [&](Py_ssize_t at, nb::object value) {
    PyTuple_SetItem(made.ptr(), at, value.release().ptr());
  };
  set(0, nb::int_(notification.tag));
  set(1, nb::int_(notification.lane));
  set(2, nb::bytes(notification.message.data(), notification.message.size()));
  return made;
}

nb::object wait_notification(Link& channel, nb::handle timeout) {
  const auto limit = to_timeout(timeout, "wait_notification");
  const Channel handle = *channel;  // the Python object may go away meanwhile
  return to_named_tuple(
      value_or_raise(wait_in_slices(limit, [&](std::chrono::nanoseconds slice) mutable {
        return Channel(handle).wait_notification(slice);
      })));
}

nb::object try_notification(Link& channel) {
  const std::optional<Notification> taken = value_or_raise(channel->try_notification());
  return taken ? to_named_tuple(*taken) : nb::none();
}

void on_notification(Link& channel, std::optional<nb::callable> function) {
  std::function<void(Notification)> handler;
  if (function) {
    handler = [call = Callback(std::move(*function))](Notification notification) {
      call([&] { return nb::make_tuple(to_named_tuple(notification)); });
    };
  }
  // Waits for a handler that runs, and that one may be waiting for the GIL.
  raise_if_error(without_gil([&] { return channel->on_notification(std::move(handler)); }));
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

// What a capsule points to: its own handle of the channel, and the device, which it keeps open.
struct Exported : fw_channel {
  nb::object device;
};

nb::capsule as_capsule(const Link& channel, nb::object device) {
  fw_channel* const exported = new Exported{{.channel = *channel}, std::move(device)};
  return nb::capsule(exported, "fw_channel", [](void* pointer) noexcept {
    auto* const held = static_cast<Exported*>(static_cast<fw_channel*>(pointer));
    {  // without the GIL, and before the device
      const Link last(std::move(held->channel));
    }
    delete held;
  });
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
            return channel->notify(tag, lane);
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
