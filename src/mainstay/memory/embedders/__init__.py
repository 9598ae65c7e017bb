"""Embedders: they turn texts into vectors for semantic search. `COMPONENTS` is the index of the built-in ones."""

COMPONENTS = {
    "local": "mainstay.memory.embedders.local.manifest",
    "api": "mainstay.providers.embeddings.manifest",
}
