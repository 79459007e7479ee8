// Messages that show whose bytes they are: each is filled from a seed of its own, and who receives
// them keeps them all and compares every byte at the end. Memory that a sender uses again while a
// receiver still reads it shows as another message's bytes.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <string>

namespace farwrite::connections {

// The method, and the metadata by which a client names the two directions of a stream.
inline constexpr char kExchangeMethod[] = "/farwrite.KeptMessages/Exchange";
inline constexpr char kUpKey[] = "up";
inline constexpr char kDownKey[] = "down";

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
  // Whether the whole batch came with its own bytes: a sentence about what did not, or nothing.
  std::string check();

 private:
  const Batch batch_;
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
// with DATA_LOSS.
class KeptMessagesService final : public grpc::CallbackGenericService {
 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

}  // namespace farwrite::connections
