"""``farwrite bench grpc``: payloads of unmodified gRPC programs over several transports."""
