"""One folder per chat platform, each behind the port in core/channels."""
