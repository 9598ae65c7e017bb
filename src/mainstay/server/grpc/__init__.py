"""gRPC server: `mainstay.v1.Agent`, `mainstay.v1.Operations`, health and reflection."""
