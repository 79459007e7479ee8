/// @file
/// The parameter box: named segments of memory that a server process holds and many clients share,
/// with arithmetic at the server (Soft Memory Box, poster, section 2; requirement M1).
///
/// A Server serves segments. A Client connects to it and gets a Segment by name or by key. Reads
/// are one-sided and never torn. Every change is applied by the server: a client lends its bytes,
/// and the server applies them in that client's order, each change wholly or not at all. So a
/// client that dies in the middle of anything has changed nothing.
///
/// A segment has one or more buffers. One of them is current. A write of the whole segment fills
/// another buffer and makes it current; every other change is made in the current buffer. A lease
/// pins a buffer: its contents then stay as they are until the lease ends, and the next change goes
/// to another buffer. So does every later change of the whole segment, if a buffer is free.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/completion.h"
#include "farwrite/device.h"
#include "farwrite/export.h"
#include "farwrite/status.h"

namespace farwrite::box {

class ClientState;
class SegmentState;
class ServerState;

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
FARWRITE_API std::string_view to_string(ElementType type);
/// The type of that name. kInvalidArgument for any other text.
FARWRITE_API Result<ElementType> parse_element_type(std::string_view name);
/// The size of one element, in bytes.
FARWRITE_API std::uint64_t bytes_of(ElementType type);

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

/// destination += factor * source, for `elements` elements of the two arrays in this process, which
/// may not overlap. The arithmetic of Operation::kAccumulate, in this thread. kInvalidArgument,
/// with nothing added, for what the server refuses: kBytes, or a factor that is no value of an
/// integer `type`.
FARWRITE_API Status add_scaled(ElementType type, void* destination, const void* source,
                               Factor factor, std::uint64_t elements);

/// The most buffers of one segment.
inline constexpr std::uint32_t kMaxBuffers = 64;
/// The longest SegmentSpec::description, in bytes: the schema of a model of 100,000 tensors.
inline constexpr std::uint64_t kMaxDescription = std::uint64_t{32} << 20;
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

class Segment;

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

/// A change on its way. Copies share it.
struct Update {
  Completion done;  ///< ok: applied, and every later read of any client sees it
  /// The segment's version after the change. Valid once `done` is ok.
  std::shared_ptr<const std::uint64_t> version;
};

/// Memory that a lease pins. Copies share the lease, which ends with the last of them, and not
/// before that with the client, the connection or the server. On one host the bytes are the
/// server's own, without a copy; between hosts they were read once. A forked child may read them as
/// long as it lives.
class FARWRITE_API LeasedSegment {
 public:
  LeasedSegment() = default;
  /// @private Made by Segment::lease().
  LeasedSegment(std::shared_ptr<const void> held, ByteView bytes, const VersionId& id)
      : held_(std::move(held)), bytes_(bytes), id_(id) {}
  ByteView bytes() const { return bytes_; }              ///< valid as long as a copy of this object
  std::uint64_t epoch() const { return id_.epoch; }      ///< of the version
  std::uint64_t version() const { return id_.version; }  ///< of the bytes

 private:
  std::shared_ptr<const void> held_;
  ByteView bytes_;
  VersionId id_;
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

/// A segment of a box, attached by a client. Copies share the attachment. It ends with detach() or
/// the last copy. Thread-safe.
class FARWRITE_API Segment {
 public:
  Segment() = default;
  /// @private Made by Client.
  explicit Segment(std::shared_ptr<SegmentState> state) : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// The segment as it was when this client attached it.
  const SegmentInfo& info() const;
  /// The number of changes applied, read from the server's memory. kNotFound once it was freed.
  Result<std::uint64_t> version() const;
  /// The epoch and the version, read from the server's memory. While a change gives a new epoch,
  /// the two may be of two moments between hosts; read() and lease() always return both of one.
  Result<VersionId> version_id() const;
  /// The changes that each piece of kChunkBytes has seen.
  Result<std::vector<std::uint64_t>> chunk_versions() const;

  /// Reads `out.size` bytes from `offset` on. One-sided, and never torn: the versions are compared
  /// before and after. After a few failed tries the server pins a buffer for the read.
  /// kResourceExhausted if other leases take every buffer for longer than ClientOptions::timeout.
  Result<ReadResult> read(MutableByteView out, std::uint64_t offset = 0,
                          const ReadOptions& options = {}) const;
  /// Posts one change. The server applies the changes of one client in the order of posting.
  Update post(const Change& change) const;
  /// Waits until the version is at least `version`, and returns what the segment has then. With an
  /// `epoch`, that of the contents which the caller has, another epoch ends the wait as well.
  Result<VersionId> wait(std::uint64_t version, std::chrono::nanoseconds timeout = kForever,
                         std::uint64_t epoch = 0) const;
  /// Calls `callback` once, when wait() would return, or with an error when that can no longer be.
  /// On any thread; it must not block. In it, every call on this client or a segment of it that
  /// would wait for the server fails with kFailedPrecondition; post() does not wait. Returns a
  /// number for cancel().
  std::uint64_t on_version(std::uint64_t version,
                           std::function<void(const Result<VersionId>&)> callback,
                           std::uint64_t epoch = 0) const;
  /// Gives up what on_version() waits for. Its callback is destroyed uncalled, unless it runs or
  /// has run by then.
  void cancel(std::uint64_t wait) const;
  /// kFailedPrecondition in a callback of this client, where nothing may wait for its server.
  Status check_wait() const;
  /// Pins the newest version. kResourceExhausted if other versions are leased already, as many as
  /// SegmentSpec::buffers allows, or if the server has no memory to go on with meanwhile.
  Result<LeasedSegment> lease(std::chrono::nanoseconds timeout = kForever) const;
  /// The bytes that are current now, without a copy. They change under the reader. kUnsupported
  /// where the fabric cannot map the server's memory.
  Result<LeasedSegment> view() const;

  /// Ends the attachment. Leases stay valid. A second call is ok.
  Status detach();
  /// Frees the segment for every client. Their later calls fail with kNotFound.
  Status free();

 private:
  std::shared_ptr<SegmentState> state_;
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

/// A connection to a box. Copies share it. Thread-safe.
class FARWRITE_API Client {
 public:
  /// Opens a device and connects. kUnavailable, without a request, if `server` is the device of a
  /// program that serves no box.
  static Result<Client> connect(const Endpoint& server, const ClientOptions& options = {});

  Client() = default;
  /// @private Made by connect().
  explicit Client(std::shared_ptr<ClientState> state) : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// Creates a segment filled with zeros, and attaches it.
  Result<Segment> create(const SegmentSpec& spec, Creation creation = Creation::kExclusive) const;
  /// Attaches the segment of that name. Waits up to `timeout` until another process creates it.
  /// kInvalidArgument for a name that no segment can have.
  Result<Segment> attach(std::string_view name,
                         std::chrono::nanoseconds timeout = std::chrono::nanoseconds(0)) const;
  /// Attaches the segment of that key. kNotFound if it was freed.
  Result<Segment> attach(std::uint64_t key) const;
  /// Every segment of the box, without its description.
  Result<std::vector<SegmentInfo>> list() const;
  /// The segment of that name, as it is now, without its description. kNotFound.
  Result<SegmentInfo> describe(std::string_view name) const;
  /// Memory that the server reads where it is: sources from it need no copy. 64-byte aligned.
  /// kCancelled after close().
  Result<MemoryRegion> allocate(std::uint64_t bytes) const;

  /// The server and the fabric that reaches it.
  const PeerInfo& server() const;
  /// The counts of this client.
  ClientStats stats() const;
  /// Ends the connection: pending changes end with kCancelled, applied or not. Waits up to
  /// `timeout` until the server reads their memory no more; until then they are not settled. Leases
  /// stay valid: the client's device stays open until the last of them has ended.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<ClientState> state_;
};

/// The options of Server::serve().
struct ServerOptions {
  /// Where the server listens, its token and fabrics. Its memory limits are set from `memory`.
  DeviceOptions device;
  /// The most memory for segments, and for changes on their way, in bytes.
  std::uint64_t memory = std::uint64_t{1} << 30;
  /// Memory that is taken and registered before the first client comes, in bytes. More is taken on
  /// demand.
  std::uint64_t pool = std::uint64_t{64} << 20;
  /// Threads that share the arithmetic of one large change; 0: as many as processors.
  std::uint32_t threads = 0;
  /// Where snapshots are written; empty: none are. Without `restore` it must hold none yet, because
  /// newer ones replace older ones, and it is created if only its last
  /// folder is missing.
  std::string snapshot_directory;
  /// The time from one snapshot to the next; 0: only Server::snapshot() writes them.
  std::chrono::nanoseconds snapshot_every{0};
  /// Start with the newest whole snapshot. kNotFound if there is none that is whole.
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

/// The process that holds the segments. Copies share it. It ends with close() or the last copy.
/// Thread-safe.
class FARWRITE_API Server {
 public:
  /// Opens a device, restores a snapshot if asked to, and accepts clients from then on.
  static Result<Server> serve(const ServerOptions& options = {});

  Server() = default;
  /// @private Made by serve().
  explicit Server(std::shared_ptr<ServerState> state) : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// Where clients connect.
  Endpoint endpoint() const;
  /// A buffer for the next version of the segment `key`, which this process fills by itself: so a
  /// publisher in the server's process makes one copy and no more. End it with commit() or drop().
  Result<Draft> draft(std::uint64_t key);
  /// Makes the draft current, and returns the version that it became. `new_epoch` as in Change.
  /// With a `fence`, kNotFound if there is no segment of that key (Change::y_key). This ends the
  /// draft, even when it fails. kFailedPrecondition for a draft that was committed or dropped.
  Result<std::uint64_t> commit(const Draft& draft, bool new_epoch = false, std::uint64_t fence = 0);
  /// Gives the draft back unused.
  void drop(const Draft& draft);

  /// Writes a snapshot now: of each segment one version, checksummed, in a file that replaces
  /// nothing until it is whole and on the disk.
  Status snapshot();
  /// The counts of this server.
  ServerStats stats() const;
  /// Those counts and the device's, in the Prometheus text format.
  std::string metrics_text() const;
  /// Ends every connection. Segments are gone, except for what the last snapshot holds. Bytes that
  /// clients have leased stay as they are; draft() and commit() fail with kFailedPrecondition.
  ///
  /// With `last_snapshot` it writes a snapshot after the last change: every change that was
  /// answered is in it. If that fails, the server is closed nevertheless, and the error is
  /// returned. kFailedPrecondition without a directory, and then the server serves on.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1),
               bool last_snapshot = false);

 private:
  std::shared_ptr<ServerState> state_;
};

}  // namespace farwrite::box
