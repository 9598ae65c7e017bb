"""How many tokens a text has: by the model's own vocabulary where it is published, else by a near one and a factor.

The vocabularies lie in a wheel and nothing is ever downloaded. One is loaded (a few hundredths of a second) when
something has to be counted at all, which a conversation far from its bounds never needs.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import msgspec

from mainstay.core.ports import ModelInfo, Tokenizer
from mainstay.core.spending import cautious

SLICE = 4096  # characters encoded at once: one endless word would cost its length squared
_FOREIGN = 1.1  # models whose vocabulary is not published, until they report what they count
_FAMILIES: tuple[tuple[str, str, float], ...] = (
    (r"claude", "o200k_base", 1.25),
    (r"gpt-oss", "gpt_oss", 1.0),
    (r"gpt-3|gpt-4(?!o|\.)|text-embedding", "cl100k_base", 1.0),
    (r"gpt-|chatgpt|\bo[1-9]\b|codex", "o200k_base", 1.0),
    (r"llama-?[34]", "llama3", 1.0),
    (r"qwen", "qwen3", 1.0),
    (r"deepseek", "deepseek_v3", 1.0),
    (r"mistral|mixtral|ministral|codestral|magistral|devstral", "mistral_v3", 1.0),
    (r"gemma|gemini", "gemma3", 1.0),
    (r"kimi", "kimi_k2", 1.0),
    (r"glm", "glm4", 1.0),
    (r"phi-?4", "phi4", 1.0),
)


IMAGE_TOKENS = 4096  # of models that nobody knows, but never more than an eighth of what they read
IMAGE_TOKENS_MAX = 36_835
_IMAGES: tuple[tuple[str, int], ...] = (  # of a large one, as providers say that they count
    (r"claude", 1600),
    (r"gpt-4o-mini", IMAGE_TOKENS_MAX),
    (r"gpt-(?:4\.1|5[^-]*)-nano", 3779),
    (r"gpt-(?:4\.1|5[^-]*)-mini|o4-mini", 2642),
    (r"gpt-|\bo[1-9]\b", 1445),
    (r"gemini", 2580),
)


class WheelTokenizer:
    """Exact for the vocabularies inside the splintr wheel. `image` is what an image is taken for."""

    def __init__(self, encoding: str, scale: float = 1.0, image: int = IMAGE_TOKENS) -> None:
        self.name = encoding if image <= IMAGE_TOKENS else f"{encoding}/{image}"  # who differs much counts anew
        self.scale = scale
        self.image = image
        self._vocabulary = encoding
        self._encoding: Any = None

    def count(self, text: str) -> int:
        if self._encoding is None:
            self._encoding = _encoding(self._vocabulary)
        encode = self._encoding.encode_ordinary
        try:
            if len(text) <= SLICE:
                return len(encode(text))
            return sum(len(encode(piece)) for piece in slices(text))
        except UnicodeEncodeError:  # half characters, which no request carries
            return self.count(text.encode(errors="replace").decode())


class ByteTokenizer:
    """For those who have no vocabulary: bytes / 4, and a fifth more. Never characters: Chinese has one to a token."""

    name = "bytes"
    scale = 1.0

    def __init__(self, image: int = IMAGE_TOKENS) -> None:
        self.image = image

    def count(self, text: str) -> int:
        return -(-len(text.encode(errors="replace")) * 3 // 10)


def slices(text: str) -> list[str]:
    """Cut before a space or a line's end where there is one, which is where vocabularies cut too."""
    made, start = [], 0
    while len(text) - start > SLICE:
        end = start + SLICE
        space = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        end = space if space > start + SLICE // 2 else end
        made.append(text[start:end])
        start = end
    made.append(text[start:])
    return made


def tokenizer_for(model: ModelInfo) -> Tokenizer:
    name = model.name.lower()
    unknown = min(IMAGE_TOKENS, model.window // 8)
    image = next((tokens for pattern, tokens in _IMAGES if re.search(pattern, name)), unknown)
    for pattern, encoding, scale in _FAMILIES:
        if re.search(pattern, name):
            return _wheel(encoding, scale, image)
    return _wheel("o200k_base", _FOREIGN, image)


@cache
def _wheel(encoding: str, scale: float, image: int) -> Tokenizer:
    try:
        import splintr  # noqa: F401  # 8 ms, and only when something has to be counted
    except ImportError:
        return ByteTokenizer(image)
    return WheelTokenizer(encoding, scale, image)


@cache
def _encoding(name: str) -> Any:
    import splintr  # its vocabulary is tens of megabytes

    return splintr.Tokenizer.from_pretrained(name)


class Scale(msgspec.Struct):
    """Counts for one model. `factor` grows with what the provider reports, and never shrinks."""

    tokenizer: Tokenizer
    factor: float
    window: int | None = None  # what the provider said it takes, where that was less than thought
    tools: bool = True  # until it says that it knows none

    def learn(self, counted: int, reported: int) -> None:
        """`counted` before any factor."""
        if counted > 0 and reported > counted * self.factor:
            self.factor = min(reported / counted, FACTOR_MAX)


FACTOR_MAX = 4.0


def counted(text: str, scale: Scale | ModelInfo) -> int:
    """By the model's count, rather more than less: without its vocabulary, as if it were numbers."""
    tokenizer = scale.tokenizer if isinstance(scale, Scale) else tokenizer_for(scale)
    if isinstance(tokenizer, ByteTokenizer):
        return cautious(text)
    factor = scale.factor if isinstance(scale, Scale) else tokenizer.scale
    return math.ceil(tokenizer.count(text) * factor)


class Scales:
    """One scale a model, for all lanes."""

    def __init__(self) -> None:
        self._made: dict[str, Scale] = {}

    def of(self, model: ModelInfo) -> Scale:
        scale = self._made.get(model.name)
        if scale is None:
            tokenizer = tokenizer_for(model)
            scale = self._made[model.name] = Scale(tokenizer, tokenizer.scale)
        return scale
