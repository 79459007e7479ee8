// What the plug-in needs of TensorFlow's client session, whose header the wheel does not contain
// (tensorflow/core/distributed_runtime/rpc/grpc_session.h, grpc_remote_master.h).
//
// Both symbols are exported by libtensorflow_cc.so.2, and the linker checks that they are there.
// GrpcSession derives from Session alone, so a Session* that dynamic_cast turns into a GrpcSession*
// is the same address. Nothing here depends on the size or the members of the class: the plug-in
// neither makes, copies nor derives from one, and calls one member that is not virtual. The
// destructor is declared, and not defined, so that the table of virtual functions and the type
// information are TensorFlow's.
#pragma once

#include <memory>

#include "tensorflow/core/distributed_runtime/master_interface.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_channel.h"
#include "tensorflow/core/public/session.h"

namespace tensorflow {

class GrpcSession : public Session {
 public:
  ~GrpcSession() override;
  // The session asks this master from now on. Before its first call.
  void SetRemoteMaster(std::unique_ptr<MasterInterface> master);
};

// A master that is called over gRPC. The caller owns it.
MasterInterface* NewGrpcMaster(const tsl::SharedGrpcChannelPtr& channel);

}  // namespace tensorflow
