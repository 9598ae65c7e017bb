"""The gateway: authentication, workspaces, routing between chat channels and sessions, delivery of answers."""
