"""Embeddings from the APIs of providers."""
