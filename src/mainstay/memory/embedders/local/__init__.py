"""Embeddings from word vectors on this machine."""
