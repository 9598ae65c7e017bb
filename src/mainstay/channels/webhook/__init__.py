"""Webhooks: signed JSON over HTTP in both directions, for systems without a channel of their own."""
