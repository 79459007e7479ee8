/// @file
/// What describes a parameter box, its segments and their changes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/options.h"
#include "farwrite/status.h"
#include "farwrite/timeout.h"

FARWRITE_BEGIN
namespace box {

/// The type of a segment's elements. The numbers are part of the wire protocol: never renumber.
enum class ElementType : std::uint8_t {
  kBytes = 0,     ///< bytes without arithmetic, or a packed model: 1 byte each
  kFloat64 = 1,   ///< IEEE binary64
  kFloat32 = 2,   ///< IEEE binary32
  kFloat16 = 3,   ///< IEEE binary16
  kBFloat16 = 4,  ///< the upper half of a binary32
  kInt32 = 5,     ///< two's complement
  kInt64 = 6,     ///< two's complement
};

/// The name of the type, as NumPy and ml_dtypes spell it: "float32".
inline std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kBytes:
      return "bytes";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kBFloat16:
      return "bfloat16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
  }
  return "unknown element type";
}
/// The type of that name. kInvalidArgument for any other text.
inline Result<ElementType> parse_element_type(std::string_view name) {
  for (const ElementType type :
       {ElementType::kBytes, ElementType::kFloat64, ElementType::kFloat32, ElementType::kFloat16,
        ElementType::kBFloat16, ElementType::kInt32, ElementType::kInt64}) {
    if (name == to_string(type)) return type;
  }
  return Status::error(StatusCode::kInvalidArgument, {"choose an element type"},
                       "\"" + std::string(name) + "\" is not an element type",
                       "use one of bytes, float64, float32, float16, bfloat16, int32, int64");
}
/// The size of one element, in bytes.
inline std::uint64_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 8;
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 4;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kBytes:
      break;
  }
  return 1;
}

/// A number that elements are multiplied by or set to. Made implicitly from any number of C++: a
/// whole one is kept as 64 bits of two's complement, any other as IEEE binary64, each exactly.
class Factor {
 public:
  /// A real number; also a whole one, if an integer type holds it.
  constexpr Factor(double number) : real_(number) {}  // NOLINT(google-explicit-constructor)
  /// A whole number. One above 2^63 - 1 becomes a real one, which no integer type holds.
  template <typename Whole, std::enable_if_t<std::is_integral_v<Whole>, int> = 0>
  constexpr Factor(Whole number)  // NOLINT(google-explicit-constructor)
      : is_whole_(std::is_signed_v<Whole> || static_cast<std::uint64_t>(number) >> 63 == 0),
        real_(static_cast<double>(number)),
        whole_(is_whole_ ? static_cast<std::int64_t>(number) : 0) {}

  /// Whether it was made from a whole number.
  constexpr bool is_whole() const { return is_whole_; }
  /// The number, for elements of a floating type; a whole one is rounded to nearest.
  constexpr double real() const { return real_; }
  /// The number, for elements of an integer type; 0 for a real one outside the 64 bits.
  constexpr std::int64_t whole() const {
    if (is_whole_ || !(real_ >= -0x1p63 && real_ < 0x1p63)) return whole_;
    return static_cast<std::int64_t>(real_);
  }

 private:
  bool is_whole_ = false;
  double real_;
  std::int64_t whole_ = 0;
};

/// The most buffers of one segment.
inline constexpr std::uint32_t kMaxBuffers = 64;
/// The longest SegmentSpec::description, in bytes: the schema of a model of 100,000 tensors.
inline constexpr std::uint64_t kMaxDescription = std::uint64_t{32} << 20;
/// The longest description that a list has, in bytes. A longer one is left out there.
inline constexpr std::uint64_t kMaxListedDescription = 256;
/// The highest rank of a segment.
inline constexpr std::size_t kMaxRank = 16;
/// Versions are counted, and reads are checked, for each piece of this many bytes.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;

/// What Client::create() makes.
struct SegmentSpec {
  std::string name;                          ///< 1 to kMaxNameBytes bytes
  ElementType type = ElementType::kFloat32;  ///< of every element
  /// The size of each dimension, in elements; empty for one element. A dimension of 0 makes an
  /// event: a segment without bytes, which has a version and can be signalled.
  std::vector<std::uint64_t> dims;
  /// Any text, for example the schema of a packed model. Clients read it by Segment::info().
  std::string description;
  /// The most buffers, 2 to kMaxBuffers. One is current, and one is kept for the next change: so
  /// `buffers` - 1 different versions can be leased at the same time.
  std::uint32_t buffers = 4;
  /// Free the segment when the last client that attached it has left.
  bool temporary = false;
};

/// Which contents a segment has. Versions are counted on after a restart, after a restore from an
/// older snapshot, and by the next publisher, so the number alone may name two contents. The epoch
/// tells them apart: two contents are the same only if both numbers are equal.
struct VersionId {
  /// A 64-bit number, never 0. The server gives a new one, above the one before, when it creates or
  /// restores the segment, and with a change that has Change::new_epoch.
  std::uint64_t epoch = 0;
  std::uint64_t version = 0;  ///< the number of changes applied

  /// Whether both name the same contents of a segment.
  friend bool operator==(const VersionId& a, const VersionId& b) {
    return a.epoch == b.epoch && a.version == b.version;
  }
  /// The opposite.
  friend bool operator!=(const VersionId& a, const VersionId& b) { return !(a == b); }
};

/// A segment, as the server describes it.
struct SegmentInfo {
  SegmentSpec spec = {};       ///< as it was created
  std::uint64_t key = 0;       ///< identifies this segment for ever, also in another process
  std::uint64_t bytes = 0;     ///< of all elements
  std::uint64_t epoch = 0;     ///< of the version
  std::uint64_t version = 0;   ///< the number of changes applied when the answer was made
  std::uint32_t attached = 0;  ///< clients that have it attached
  /// Of those, the clients of which nothing came for the detection_time of the server's device:
  /// stopped, or cut off.
  std::uint32_t silent = 0;
  /// Since the last change was applied, or since the segment was made.
  std::chrono::nanoseconds age{0};
};

/// What a read may return while others change the segment.
enum class Consistency : std::uint8_t {
  kSegment,  ///< one version of the whole segment
  kChunk,    ///< for each piece of kChunkBytes, one version of it: what asynchronous training needs
};

/// How to read a segment.
struct ReadOptions {
  Consistency consistency = Consistency::kSegment;  ///< what has to be whole
  std::uint64_t min_version = 0;  ///< wait until the segment has at least this version
  std::uint64_t epoch = 0;        ///< wait no longer if it has another epoch; 0: any will do
  /// Of the wait for `min_version`, and of the reading where the server is needed for it. A shorter
  /// one than an answer takes allows a second, and 10 ns for each byte. Without one, what is no
  /// transfer of bytes has ClientOptions::timeout.
  std::chrono::nanoseconds timeout = kForever;
  /// What keeps the destination. With it, kDeadlineExceeded also ends the wait for bytes that are
  /// under way: they may still arrive, so the destination must not be read into again, and the
  /// owner lives until none can. Without it, such a wait lasts until the server goes on or is dead.
  std::shared_ptr<const void> owner = nullptr;
};

/// What a read returned.
struct ReadResult {
  std::uint64_t epoch = 0;    ///< of the version
  std::uint64_t version = 0;  ///< of the bytes; with kChunk the lowest that a piece can have
  std::uint32_t retries = 0;  ///< pieces or segments read again, because they changed meanwhile
  bool leased = false;        ///< the server pinned a buffer for this read, after failed tries
};

/// Two segments or memory as the sources of a change: what Segment::post() applies.
enum class Operation : std::uint8_t {
  kWrite = 1,       ///< dst = x
  kAccumulate = 2,  ///< dst += a * x
  kAxpy = 3,        ///< dst = a * x + y
  kScale = 4,       ///< dst *= a
  kFill = 5,        ///< dst = a
  kSwap = 6,        ///< dst and x exchange their contents; x is another segment
  kSignal = 7,      ///< nothing but a new version
};

/// One change of a segment. Offsets and lengths are in bytes and multiples of the element size.
struct Change {
  Operation operation = Operation::kWrite;  ///< what to do
  std::uint64_t offset = 0;                 ///< into the destination
  /// Of the changed range. Unset: as long as `memory`, or else from `offset` to the segment's end.
  std::uint64_t length = kWhole;
  Factor factor = 1.0;  ///< the a of the formulas; a value of the type, if that is of integers
  /// x, in any memory of this process. It must stay valid until the completion is settled. Memory
  /// from Client::allocate() is read where it is; other memory is copied into such memory first.
  ByteView memory;
  std::uint64_t x_key = 0;     ///< x as a segment, instead of `memory`
  std::uint64_t x_offset = 0;  ///< into that segment
  /// y of kAxpy, always a segment. Of kWrite: a segment without which the write is refused with
  /// kNotFound, so that freeing it fences the writer off.
  std::uint64_t y_key = 0;
  std::uint64_t y_offset = 0;  ///< into that segment
  /// Give the segment a new epoch together with the new version. The contents before keep theirs.
  bool new_epoch = false;

  static constexpr std::uint64_t kWhole = ~std::uint64_t{0};  ///< up to the end
};

/// Counts of a Client, over all its segments.
struct ClientStats {
  std::uint64_t reads = 0;         ///< Segment::read() that returned bytes
  std::uint64_t read_retries = 0;  ///< segments and pieces that were read again
  std::uint64_t leased_reads = 0;  ///< reads for which the server pinned a buffer
  std::uint64_t changes = 0;       ///< posted
  std::uint64_t staged_bytes = 0;  ///< copied before they were lent, because of where they lay
  std::uint64_t leases = 0;        ///< Segment::lease() that succeeded
};

/// The options of Client::connect().
struct ClientOptions {
  /// The client's device: its token, fabrics, memory limits.
  DeviceOptions device;
  /// Of connecting, and of calls that wait for the server and have no timeout of their own.
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
};

/// Whether Client::create() may find the segment there already.
enum class Creation : std::uint8_t {
  kExclusive,     ///< kAlreadyExists if the name is taken
  kOpenOrCreate,  ///< attach a segment of that name, type and shape; kInvalidArgument for another
};

/// The options of Server::serve().
struct ServerOptions {
  /// Where the server listens, its token and fabrics. Its memory limits are set from `memory`.
  DeviceOptions device;
  /// The most memory for segments, and for changes on their way, in bytes; 2 MiB or more.
  std::uint64_t memory = std::uint64_t{1} << 30;
  /// Memory that is taken and registered before the first client comes, in bytes. More is taken on
  /// demand.
  std::uint64_t pool = std::uint64_t{64} << 20;
  /// Threads that share the arithmetic of one large change, at most 1024; 0: as many as processors.
  std::uint32_t threads = 0;
  /// Where snapshots are written; empty: none are. Without `restore` it must hold none yet, because
  /// newer ones replace older ones, and it is created if only its last
  /// folder is missing.
  std::string snapshot_directory;
  /// The time from one snapshot to the next; 0: only Server::snapshot() writes them.
  std::chrono::nanoseconds snapshot_every{0};
  /// Start with the newest whole snapshot. kNotFound if no snapshot is whole.
  bool restore = false;
};

/// Counts of a Server.
struct ServerStats {
  std::uint64_t clients = 0;            ///< connected now
  std::uint64_t segments = 0;           ///< now
  std::uint64_t segment_bytes = 0;      ///< of all buffers, now
  std::uint64_t changes = 0;            ///< applied
  std::uint64_t bytes_changed = 0;      ///< by those
  std::uint64_t refused = 0;            ///< requests that ended with an error
  std::uint64_t switches = 0;           ///< changes that filled another buffer and made it current
  std::uint64_t copies_for_leases = 0;  ///< buffers copied, because a lease pinned the current one
  std::uint64_t leases = 0;             ///< held now
  std::uint64_t leases_granted = 0;     ///< since the start
  std::uint64_t snapshots = 0;          ///< written
  std::uint64_t snapshot_failures = 0;  ///< given up, the snapshot before them kept
};

/// Memory at the server that the next version of a segment is prepared in.
struct Draft {
  std::uint64_t key = 0;     ///< of the segment
  std::uint32_t buffer = 0;  ///< internal
  MutableByteView bytes;     ///< contents undefined; as long as the segment
};

}  // namespace box
FARWRITE_END
