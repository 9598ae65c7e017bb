"""What the tools of a server are called here: one name each, that can be taken for no other's."""

from __future__ import annotations

import hashlib
import re

NAME_CHARS_MAX = 64
SAID_CHARS_MAX = 256  # of a name, as a server says it
SEAM = "__"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def tool_name(slug: str, said: str) -> str:
    """`<server>__<tool>`. A name that cannot be one, or is too long, gets a mark made of the whole of it."""
    room = NAME_CHARS_MAX - len(slug) - len(SEAM)
    if _PLAIN.fullmatch(said) and len(said) <= room:
        return f"{slug}{SEAM}{said}"
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", said)[: room - 9]
    return f"{slug}{SEAM}{plain}_{hashlib.sha256(said.encode(errors='surrogatepass')).hexdigest()[:8]}"


def alike(name: str) -> str:
    """Names with the same of this are too easily mistaken for one another: only case, or _ for -, tells them apart."""
    return name.casefold().replace("-", "_")
