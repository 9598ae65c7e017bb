"""Sandbox without isolation."""
