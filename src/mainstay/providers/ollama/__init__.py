"""Ollama chat API."""
