"""Farwrite's component for gRPC, compiled. `farwrite.run.grpc_component` finds it."""
