#include "conformance/box_fixture.h"

namespace farwrite::box {

testing::AssertionResult all_are(float value, const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != value) {
      return testing::AssertionFailure()
             << "element " << i << " is " << values[i] << " and not " << value;
    }
  }
  return testing::AssertionSuccess();
}

ByteView view(const std::vector<float>& values) {
  return {values.data(), values.size() * sizeof(float)};
}

BoxConformance::~BoxConformance() {
  for (Client& client : clients_) EXPECT_OK(client.close());
  if (server_.valid()) {
    EXPECT_OK(server_.close());
  }
}

void BoxConformance::serve(ServerOptions options) {
  if (server_.valid()) {
    EXPECT_OK(server_.close());
  }
  options.device = this->options();
  if (options.memory == ServerOptions().memory) options.memory = std::uint64_t{64} << 20;
  if (options.pool == ServerOptions().pool) options.pool = 0;
  options.threads = 2;
  Result<Server> server = Server::serve(options);
  ASSERT_OK(server);
  server_ = *std::move(server);
}

Client BoxConformance::connect() {
  Result<Client> client = Client::connect(server_.endpoint(), {.device = options()});
  EXPECT_OK(client);
  if (!client.ok()) return {};
  clients_.push_back(client.value());
  return *std::move(client);
}

SegmentSpec BoxConformance::vector_spec(const std::string& name, std::uint64_t elements) {
  SegmentSpec spec;
  spec.name = name;
  spec.dims = {elements};
  return spec;
}

Segment BoxConformance::create(const Client& client, const SegmentSpec& spec) {
  Result<Segment> segment = client.create(spec);
  EXPECT_OK(segment);
  return segment.ok() ? *std::move(segment) : Segment();
}

std::vector<float> BoxConformance::read(const Segment& segment, const ReadOptions& options) {
  std::vector<float> values(segment.info().bytes / sizeof(float), -1.0F);
  EXPECT_OK(segment.read({values.data(), values.size() * sizeof(float)}, 0, options));
  return values;
}

Status BoxConformance::error_of(const Segment& segment, const Change& change) {
  return segment.post(change).done.wait(kHang);
}

Change BoxConformance::change_of(Operation operation, double factor) {
  Change change;
  change.operation = operation;
  change.factor = factor;
  return change;
}

Change BoxConformance::accumulate(const std::vector<float>& values, double factor) {
  Change change = change_of(Operation::kAccumulate, factor);
  change.memory = view(values);
  return change;
}

std::uint64_t BoxConformance::apply(const Segment& segment, const Change& change) {
  const Update update = segment.post(change);
  EXPECT_OK(update.done.wait(kHang));
  return *update.version;
}

std::uint64_t BoxConformance::write(const Segment& segment, const std::vector<float>& values) {
  Change change;
  change.memory = view(values);
  return apply(segment, change);
}

}  // namespace farwrite::box
