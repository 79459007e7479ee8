// For tests that speak to a device by hand: the handshake's calls over a plain socket.
#pragma once

#include <string>
#include <string_view>

#include "core/byte_stream.h"
#include "device/frame.h"
#include "device/handshake.h"

namespace farwrite::device {

inline Status send_frame(int socket, ControlFrameType type, ByteView body, core::Deadline deadline,
                         std::string_view operation) {
  core::PlainView stream(socket);
  return send_frame(stream, type, body, deadline, operation);
}
inline Result<Frame> receive_frame(int socket, core::Deadline deadline,
                                   std::string_view operation) {
  core::PlainView stream(socket);
  return receive_frame(stream, deadline, operation);
}
inline Result<HandshakeResult> introduce_connecting(int socket, const LocalIdentity& self,
                                                    const std::string& peer_name,
                                                    core::Deadline deadline,
                                                    fabric::LinkObserver* observer) {
  core::PlainView stream(socket);
  return introduce_connecting(stream, self, peer_name, deadline, observer);
}
inline Result<HandshakeResult> introduce_accepting(int socket, const LocalIdentity& self,
                                                   core::Deadline deadline,
                                                   fabric::LinkObserver* observer) {
  core::PlainView stream(socket);
  return introduce_accepting(stream, self, deadline, observer);
}

}  // namespace farwrite::device
