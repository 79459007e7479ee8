#include "server/eager_service.h"

#include "tensorflow/core/distributed_runtime/rpc/eager/grpc_eager_service_impl.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// TensorFlow keeps both members private and gives no way to them. An explicit instantiation may
// name a private member, [temp.spec]/6, so the compiler finds them by name and type. abi.cc checks
// the sizes of the classes.
template <typename Tag, typename Tag::type kMember>
struct Expose {
  friend typename Tag::type member(Tag) { return kMember; }
};

struct ServiceOfServer {
  using type = tsl::AsyncServiceInterface* tf::GrpcServer::*;
  friend type member(ServiceOfServer);
};
template struct Expose<ServiceOfServer, &tf::GrpcServer::eager_service_>;

struct ImplementationOfService {
  using type = tf::eager::EagerServiceImpl tf::eager::GrpcEagerServiceImpl::*;
  friend type member(ImplementationOfService);
};
template struct Expose<ImplementationOfService, &tf::eager::GrpcEagerServiceImpl::local_impl_>;

}  // namespace

tf::eager::EagerServiceImpl* eager_service_of(tf::GrpcServer& server) {
  // GrpcServer::Init() makes no other kind; its own code casts it like this.
  auto* const service =
      static_cast<tf::eager::GrpcEagerServiceImpl*>(server.*member(ServiceOfServer()));
  return &(service->*member(ImplementationOfService()));
}

}  // namespace farwrite::plugin
