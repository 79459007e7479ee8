#include "server/eager_service.h"

#include "server/expose.h"
#include "tensorflow/core/distributed_runtime/rpc/eager/grpc_eager_service_impl.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

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

namespace {

// Its contexts are for derived classes.
struct ContextsOfService : tf::eager::EagerServiceImpl {
  using Context = ServerContext;
  static constexpr auto kFind = &ContextsOfService::GetServerContext;
};

}  // namespace

tf::eager::EagerServiceImpl* eager_service_of(tf::GrpcServer& server) {
  // GrpcServer::Init() makes no other kind; its own code casts it like this.
  auto* const service =
      static_cast<tf::eager::GrpcEagerServiceImpl*>(server.*member(ServiceOfServer()));
  return &(service->*member(ImplementationOfService()));
}

void set_collectives(tf::eager::EagerServiceImpl& service, std::uint64_t context,
                     tf::CollectiveExecutorMgrInterface* manager) {
  ContextsOfService::Context* found = nullptr;
  if (!(service.*ContextsOfService::kFind)(context, &found).ok()) return;
  const tsl::core::ScopedUnref owned(found);
  found->Context()->SetCollectiveExecutorMgr(manager);
}

}  // namespace farwrite::plugin
