"""Matrix: an account on a homeserver, by matrix-nio. Rooms that are encrypted end to end cannot be read."""
