"""Tool names for the model: `<server>__<tool>`, valid and unambiguous."""

from __future__ import annotations

import hashlib
import re

NAME_CHARS_MAX = 64
ORIGINAL_NAME_CHARS_MAX = 256  # of the server's own name for a tool
SEPARATOR = "__"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def build_tool_name(slug: str, original_name: str) -> str:
    """Return `<server>__<tool>`. A name that is too long or has invalid characters is shortened and gets a hash."""
    chars_max = NAME_CHARS_MAX - len(slug) - len(SEPARATOR)
    if _PLAIN.fullmatch(original_name) and len(original_name) <= chars_max:
        return f"{slug}{SEPARATOR}{original_name}"
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", original_name)[: chars_max - 9]
    return f"{slug}{SEPARATOR}{plain}_{hashlib.sha256(original_name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def similarity_key(name: str) -> str:
    """Return a key that is equal for names that are easily confused: they differ only in case, or in _ and -."""
    return name.casefold().replace("-", "_")
