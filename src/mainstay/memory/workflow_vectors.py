"""Similarity by meaning between a prompt and the requests of recorded workflows, with an embedding model in memory.

Nothing waits for a model: while it is not loaded, or if it answers over a network, workflows are found by words only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

# Returns the vectors of texts at once; None: the model is not loaded.
EmbedNow = Callable[[Sequence[str]], list[bytes] | None]

NEW_VECTORS_MAX = 64  # computed in one call; more follow with the next prompts


class WorkflowVectors:
    """The vectors of the requests of an index, computed when they are first needed."""

    def __init__(self, embed_now: EmbedNow) -> None:
        self._embed_now = embed_now
        self._vectors: dict[str, bytes] = {}
        self._matrix: tuple[tuple[str, ...], NDArray[numpy.float32]] | None = None

    def forget(self, id: str) -> None:
        if self._vectors.pop(id, None) is not None:
            self._matrix = None

    def find_nearest(self, prompt: str, requests: Mapping[str, str]) -> tuple[str, float] | None:
        """Return the id of the request with the most similar meaning, and the cosine; None without a model.

        Vectors of earlier calls are kept, so only those of `requests` are compared."""
        if not requests:
            return None
        missing = [id for id in reversed(list(requests)) if id not in self._vectors][:NEW_VECTORS_MAX]
        vectors = self._embed_now([prompt, *(requests[id] for id in missing)])
        if vectors is None:
            return None
        try:
            import numpy  # optional, and slow to import
        except ImportError:
            return None
        if missing:
            self._vectors.update(zip(missing, vectors[1:], strict=True))
            self._matrix = None
        if self._matrix is None:
            rows = [numpy.frombuffer(vector, dtype=numpy.float32) for vector in self._vectors.values()]
            self._matrix = tuple(self._vectors), numpy.stack(rows)
        ids, matrix = self._matrix
        scores = matrix @ numpy.frombuffer(vectors[0], dtype=numpy.float32)
        allowed = [index for index, id in enumerate(ids) if id in requests]
        best = max(allowed, key=scores.__getitem__)
        return ids[best], float(scores[best])
