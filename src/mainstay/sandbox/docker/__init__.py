"""Sandbox in an existing container."""
