// Messages that show whose bytes they are: each is filled from a seed of its own, and who receives
// them keeps them all and compares every byte at the end. Memory that a sender uses again while a
// receiver still reads it shows as another message's bytes.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>

namespace farwrite::connections {

// The method, and the metadata by which a client names the two directions of a stream, and of how
// many calls the server is to keep the messages behind their ends.
inline constexpr char kExchangeMethod[] = "/farwrite.KeptMessages/Exchange";
inline constexpr char kUpKey[] = "up";
inline constexpr char kDownKey[] = "down";
inline constexpr char kKeepKey[] = "keep";

// All messages of one direction of a stream.
struct Batch {
  uint64_t seed = 0;  // the first message's; each further one has the next
  int count = 0;
  size_t bytes = 0;  // of each message

  std::string encode() const;
  static Batch decode(const std::string& text);
  grpc::ByteBuffer message(int index) const;
};

// Not thread-safe.
class KeptMessages {
 public:
  explicit KeptMessages(const Batch& batch) : batch_(batch) {}

  // Where the next message is to be read.
  grpc::ByteBuffer* next();
  // The last one did not come.
  void ended() { kept_.pop_back(); }
  int count() const { return static_cast<int>(kept_.size()); }
  // Whether the whole batch came with its own bytes: a sentence about what did not, or nothing.
  std::string check() const;
  // The same for a batch of which the last messages may not have come.
  std::string changed() const;

 private:
  Batch batch_;
  std::deque<grpc::ByteBuffer> kept_;  // a reader has a pointer into it
};

// Both ends of a stream: sends one batch while it receives another. `Reactor` is gRPC's class.
template <typename Reactor>
class Exchange : public Reactor {
 public:
  Exchange(const Batch& sends, const Batch& receives) : kept(receives), sends_(sends) {}

  KeptMessages kept;

 protected:
  void read() { this->StartRead(kept.next()); }
  void write() {
    if (sent_ == sends_.count) return sent_all();
    message_ = sends_.message(sent_++);
    this->StartWrite(&message_);
  }
  virtual void sent_all() = 0;
  virtual void received_all() = 0;

 private:
  void OnReadDone(bool came) override {
    if (came) return read();
    kept.ended();
    received_all();
  }
  void OnWriteDone(bool went) override {
    if (went) return write();
    sent_all();
  }

  const Batch sends_;
  int sent_ = 0;
  grpc::ByteBuffer message_;
};

// What a server adds to its others, for kExchangeMethod. A stream whose messages came changed ends
// with DATA_LOSS. So does each one with kKeepKey once a call with that key came twice, or once
// messages changed that are kept of such calls, however those ended. Thread-safe.
class KeptMessagesService final : public grpc::CallbackGenericService {
 public:
  // Keeps the messages of a call that has ended, and those of the `calls` - 1 before it.
  void keep(KeptMessages messages, size_t calls);
  // A sentence about what came twice or changed, or nothing.
  std::string changed();

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  std::mutex mutex_;
  std::set<uint64_t> came_;  // the seeds of calls with kKeepKey
  std::deque<KeptMessages> kept_;
  std::string faults_;
};

}  // namespace farwrite::connections
