"""The gateway over gRPC: `mainstay.v1.Agent`, health and reflection."""
