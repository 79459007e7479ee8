// What a server tells of itself: its health and its services.
#include <algorithm>

#include "client.h"
#include "src/proto/grpc/health/v1/health.grpc.pb.h"
#include "src/proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace farwrite::connections {

namespace health = grpc::health::v1;
namespace reflection = grpc::reflection::v1alpha;

void check_health(const Ports& ports) {
  const auto stub = health::Health::NewStub(open_channel(ports[0]));
  health::HealthCheckRequest request;
  health::HealthCheckResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub->Check(&context, request, &response);
    require(status.ok(), "a health check failed: " + status.error_message());
    require(response.status() == health::HealthCheckResponse::SERVING, "the server serves not");
  }
  {
    grpc::ClientContext context;
    request.set_service("no.such.Service");
    const grpc::Status status = stub->Check(&context, request, &response);
    require(status.error_code() == grpc::StatusCode::NOT_FOUND, "an unknown service is healthy");
  }
  grpc::ClientContext context;
  request.set_service("grpc.testing.TestService");
  const auto watch = stub->Watch(&context, request);
  require(watch->Read(&response), "a health watch brings no state");
  require(response.status() == health::HealthCheckResponse::SERVING, "the service serves not");
  context.TryCancel();
  require(watch->Finish().error_code() == grpc::StatusCode::CANCELLED, "a watch ended by itself");
}

void list_services(const Ports& ports) {
  const auto stub = reflection::ServerReflection::NewStub(open_channel(ports[0]));
  grpc::ClientContext context;
  const auto stream = stub->ServerReflectionInfo(&context);
  reflection::ServerReflectionRequest request;
  request.set_list_services("");
  reflection::ServerReflectionResponse response;
  require(stream->Write(request), "reflection takes no request");
  require(stream->Read(&response), "reflection brings no answer");
  const auto& services = response.list_services_response().service();
  for (const char* name : {"grpc.testing.TestService", "grpc.health.v1.Health"}) {
    require(std::any_of(services.begin(), services.end(),
                        [name](const auto& service) { return service.name() == name; }),
            std::string("reflection does not list ") + name);
  }
  require(stream->WritesDone(), "reflection takes no end");
  require(stream->Finish().ok(), "reflection ended badly");
}

}  // namespace farwrite::connections
