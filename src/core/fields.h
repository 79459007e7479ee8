// Fields: the form of a message, stated once for writing and for reading.
//
// A message lists its fields in the order of the wire:
//
//   template <typename Wire>
//   void LookupMessage::fields(Wire& wire) {
//     wire(request, wait_ms, core::sized(name, kMaxNameBytes));
//   }
//   std::vector<std::byte> LookupMessage::to_bytes() const { return core::to_bytes(*this); }
//   Result<LookupMessage> LookupMessage::from_bytes(ByteView bytes) {
//     return core::from_bytes<LookupMessage>(bytes, {.operation = "read a control message"});
//   }
//
// A field is an integer, an enumeration (its number), a bool (one byte), an array of bytes, or
// anything with fields() of its own, such as the forms below. Nothing that is read is trusted:
// require() states what a reader checks; the first failure sticks, and what follows it reads as
// zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/wire.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::core {

// What the errors about bytes say.
struct Reading {
  std::string_view operation;
  TailBytes tail = TailBytes::kRejected;
  std::string_view remedy = "run the same Farwrite release on both sides";  // of a broken rule
  std::string_view fabric = {};
  std::string_view peer = {};
};

// Appends to `Sink`, which has bytes(ByteView).
template <typename Sink>
class FieldWriter {
 public:
  static constexpr bool kReads = false;

  explicit FieldWriter(Sink& to) : to_(to) {}

  template <typename... Field>
  void operator()(Field&&... fields) {
    (put(fields), ...);
  }
  bool ok() const { return true; }
  void require(bool /*right*/, std::string_view /*otherwise*/) {}
  // A u32 length and as many bytes.
  template <typename Bytes>
  void sized(Bytes& bytes, std::size_t /*most*/) {
    static_assert(sizeof(*bytes.data()) == 1);
    auto size = static_cast<std::uint32_t>(bytes.size());
    put(size);
    to_.bytes({bytes.data(), bytes.size()});
  }
  // As many bytes as both sides know of.
  template <typename Bytes>
  void exactly(Bytes& bytes, std::size_t /*count*/) {
    to_.bytes({bytes.data(), bytes.size()});
  }
  template <typename Bytes>
  void rest(Bytes& bytes) {
    to_.bytes(view(bytes));
  }

 private:
  static ByteView view(const ByteView& bytes) { return bytes; }
  static ByteView view(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

  template <typename Field>
  void put(Field& field) {
    if constexpr (std::is_same_v<Field, bool>) {
      integer(static_cast<std::uint8_t>(field ? 1 : 0));
    } else if constexpr (std::is_enum_v<Field>) {
      integer(static_cast<std::make_unsigned_t<std::underlying_type_t<Field>>>(field));
    } else if constexpr (std::is_integral_v<Field>) {
      integer(static_cast<std::make_unsigned_t<Field>>(field));
    } else {
      field.fields(*this);
    }
  }
  template <typename Byte, std::size_t Bytes>
  void put(std::array<Byte, Bytes>& bytes) {
    static_assert(sizeof(Byte) == 1);
    to_.bytes({bytes.data(), Bytes});
  }
  // Shifts, so that the byte order does not depend on the machine's.
  template <typename Integer>
  void integer(Integer value) {
    std::array<std::byte, sizeof(Integer)> raw;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      raw[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
    }
    to_.bytes({raw.data(), raw.size()});
  }

  Sink& to_;
};

// Reads from memory that the caller keeps alive and that nothing else writes.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  explicit FieldReader(ByteView bytes) : from_(bytes) {}

  template <typename... Field>
  void operator()(Field&&... fields) {
    (get(fields), ...);
  }
  bool ok() const { return from_.ok() && failure_.ok() && broken_.empty(); }
  // A rule of the message; `otherwise` is the cause of the error, and lives for ever.
  void require(bool right, std::string_view otherwise) {
    if (!right && ok()) broken_ = otherwise;
  }
  // In place of what failed before.
  void fail(Status why) { failure_ = std::move(why); }
  template <typename Bytes>
  void sized(Bytes& bytes, std::size_t most) {
    assign(bytes, ok() ? from_.blob(most) : ByteView());
  }
  template <typename Bytes>
  void exactly(Bytes& bytes, std::size_t count) {
    assign(bytes, this->bytes(count));
  }
  template <typename Bytes>
  void rest(Bytes& bytes) {
    assign(bytes, this->bytes(from_.remaining()));
  }
  // Bytes left and read.
  std::size_t remaining() const { return ok() ? from_.remaining() : 0; }
  std::size_t position() const { return from_.position(); }

  // Ok if all was there, and every rule is kept.
  Status finish(const Reading& reading) const {
    if (!failure_.ok()) return failure_;
    if (broken_.empty()) return from_.finish(reading.operation, reading.tail);
    return Status::error(StatusCode::kProtocolError,
                         {reading.operation, reading.peer, reading.fabric}, broken_,
                         reading.remedy);
  }

 private:
  template <typename Field>
  void get(Field& field) {
    if constexpr (std::is_same_v<Field, bool>) {
      const auto flag = integer<std::uint8_t>();
      require(flag <= 1, "a flag is neither 0 nor 1");
      field = flag == 1;
    } else if constexpr (std::is_enum_v<Field>) {
      field = static_cast<Field>(integer<std::make_unsigned_t<std::underlying_type_t<Field>>>());
    } else if constexpr (std::is_integral_v<Field>) {
      field = static_cast<Field>(integer<std::make_unsigned_t<Field>>());
    } else {
      field.fields(*this);
    }
  }
  template <typename Byte, std::size_t Bytes>
  void get(std::array<Byte, Bytes>& to) {
    static_assert(sizeof(Byte) == 1);
    const ByteView raw = bytes(Bytes);
    for (std::size_t i = 0; i < raw.size; ++i) to[i] = static_cast<Byte>(raw.data[i]);
  }
  template <typename Integer>
  Integer integer() {
    const ByteView raw = bytes(sizeof(Integer));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < raw.size; ++i) {
      value |= static_cast<std::uint64_t>(raw.data[i]) << (8 * i);
    }
    return static_cast<Integer>(value);
  }
  ByteView bytes(std::size_t count) { return ok() ? from_.bytes(count) : ByteView(); }
  static void assign(ByteView& view, ByteView raw) { view = raw; }
  static void assign(std::string_view& view, ByteView raw) {
    view = {reinterpret_cast<const char*>(raw.data), raw.size};
  }
  template <typename Bytes>
  static void assign(Bytes& bytes, ByteView raw) {
    using Byte = typename Bytes::value_type;
    static_assert(sizeof(Byte) == 1);
    const auto* const begin = reinterpret_cast<const Byte*>(raw.data);
    bytes.assign(begin, begin + raw.size);
  }

  WireReader from_;
  std::string_view broken_;
  Status failure_;
};

// --- Forms of fields. Each refers to what it is made of.

// A string or a vector of bytes, of at most `most`, behind its u32 length. A string_view then shows
// the bytes that were read from.
template <typename Bytes>
struct Sized {
  Bytes& bytes;
  std::size_t most;

  template <typename Wire>
  void fields(Wire& wire) {
    wire.sized(bytes, most);
  }
};
template <typename Bytes>
Sized<Bytes> sized(Bytes& bytes, std::size_t most) {
  return {bytes, most};
}

// A message with to_bytes() and from_bytes(), behind its u32 length.
template <typename Message>
struct Enclosed {
  Message& message;
  std::size_t most;

  template <typename Wire>
  void fields(Wire& wire) {
    std::vector<std::byte> bytes;
    if constexpr (!Wire::kReads) bytes = message.to_bytes();
    wire.sized(bytes, most);
    if constexpr (Wire::kReads) {
      if (!wire.ok()) return;
      Result<Message> read = Message::from_bytes({bytes.data(), bytes.size()});
      if (!read.ok()) return wire.fail(read.status());
      message = *std::move(read);
    }
  }
};
template <typename Message>
Enclosed<Message> enclosed(Message& message, std::size_t most) {
  return {message, most};
}

// Everything up to the end: a view of it when it is read.
template <typename Bytes>
struct Rest {
  Bytes& bytes;

  template <typename Wire>
  void fields(Wire& wire) {
    wire.rest(bytes);
  }
};
template <typename Bytes>
Rest<Bytes> rest(Bytes& bytes) {
  return {bytes};
}

// Written as zeros, for later versions.
template <std::size_t Bytes>
struct Reserved {
  template <typename Wire>
  void fields(Wire& wire) {
    std::array<std::byte, Bytes> zeros{};
    wire(zeros);
  }
};

// Always the same; anything else is an error with the cause `otherwise`.
template <typename Value>
struct Constant {
  Value value;
  std::string_view otherwise;

  template <typename Wire>
  void fields(Wire& wire) {
    Value found = value;
    wire(found);
    wire.require(found == value, otherwise);
  }
};
template <typename Value>
Constant<Value> constant(Value value, std::string_view otherwise) {
  return {value, otherwise};
}

// A number of type Count, at most `most`, and as many items.
template <typename Count, typename Items>
struct List {
  Items& items;
  std::size_t most;
  std::string_view otherwise;  // as constant() has it

  template <typename Wire>
  void fields(Wire& wire) {
    auto count = static_cast<Count>(items.size());
    wire(count);
    wire.require(count <= most, otherwise);
    if constexpr (Wire::kReads) {
      // One by one: a count alone must not make this process allocate.
      for (Count i = 0; i < count && wire.ok(); ++i) wire(items.emplace_back());
    } else {
      for (auto& item : items) wire(item);
    }
  }
};
template <typename Count, typename Items>
List<Count, Items> list(Items& items, std::size_t most, std::string_view otherwise) {
  return {items, most, otherwise};
}

// --- Messages.

// Appends the message to `sink`, as FieldWriter has it.
template <typename Message, typename Sink>
void write(const Message& message, Sink& sink) {
  FieldWriter<Sink> writer(sink);
  writer(const_cast<Message&>(message));  // a writer only looks
}

template <typename Message>
std::vector<std::byte> to_bytes(const Message& message) {
  WireWriter bytes;
  write(message, bytes);
  return bytes.take();
}

// Of a message whose size is known; zeros follow it up to `Bytes`.
template <std::size_t Bytes, typename Message>
std::array<std::byte, Bytes> to_array(const Message& message) {
  struct ArraySink {
    std::array<std::byte, Bytes> result{};
    std::size_t used = 0;
    void bytes(ByteView raw) {
      if (raw.size > Bytes - used) std::abort();  // the message does not have this size
      if (raw.size > 0) std::memcpy(result.data() + used, raw.data, raw.size);
      used += raw.size;
    }
  } sink;
  write(message, sink);
  return sink.result;
}

template <typename Message>
Result<Message> from_bytes(ByteView bytes, const Reading& reading) {
  FieldReader reader(bytes);
  Message message;
  reader(message);
  FARWRITE_RETURN_IF_ERROR(reader.finish(reading));
  return message;
}

}  // namespace farwrite::core
