"""Matrix: an account on a homeserver, over matrix-nio. End-to-end encrypted rooms are not supported."""
