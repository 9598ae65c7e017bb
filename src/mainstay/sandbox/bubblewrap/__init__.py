"""Sandbox of Linux namespaces."""
