// Adds arrays up in a parameter box: one process holds it, and others change it.
//
//   box serve   holds "weights", waits until two processes have added to it, and prints the sum
//   box add     adds an array of ones
#include <farwrite/box.h>

#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

namespace {

namespace box = farwrite::box;

const farwrite::Endpoint kServer{"127.0.0.1", 7777};
constexpr std::size_t kElements = 1024;

farwrite::Status serve() {
  box::ServerOptions options;
  options.device.listen = kServer;
  auto server = box::Server::serve(options);
  if (!server) return server.status();
  auto client = box::Client::connect(kServer);
  if (!client) return client.status();
  box::SegmentSpec spec;
  spec.name = "weights";
  spec.type = box::ElementType::kFloat32;
  spec.dims = {kElements};
  auto weights = client->create(spec);
  if (!weights) return weights.status();

  // Every change makes the next version.
  auto changed = weights->wait(/*version=*/2, std::chrono::seconds(30));
  if (!changed) return changed.status();
  std::vector<float> sum(kElements);
  auto read = weights->read({sum.data(), sum.size() * sizeof(float)});
  if (!read) return read.status();
  std::printf("version %d: %.1f\n", static_cast<int>(read->version), sum.front());

  // The others have their answers once they have left: this process is attached as well.
  for (auto now = client->describe("weights");; now = client->describe("weights")) {
    if (!now) return now.status();
    if (now->attached == 1) return server->close();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

farwrite::Status add() {
  auto client = box::Client::connect(kServer);
  if (!client) return client.status();
  auto weights = client->attach("weights", std::chrono::seconds(10));
  if (!weights) return weights.status();
  const std::vector<float> ones(kElements, 1.0F);
  box::Change change;
  change.operation = box::Operation::kAccumulate;
  change.memory = {ones.data(), ones.size() * sizeof(float)};
  FARWRITE_RETURN_IF_ERROR(weights->post(change).done.wait());  // applied: every later read sees it
  return client->close();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view role = argc == 2 ? argv[1] : "";
  if (role != "serve" && role != "add") {
    std::fprintf(stderr, "usage: box serve|add\n");
    return 2;
  }
  const farwrite::Status status = role == "serve" ? serve() : add();
  if (!status) std::fprintf(stderr, "box: %s\n", status.to_string().c_str());
  return status ? 0 : 1;
}
