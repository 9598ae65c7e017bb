"""Tokenizers: the model's own vocabulary if it is published, else a similar one with a correction factor.

The vocabularies are part of an installed wheel; nothing is downloaded. One is loaded (a few hundredths of a second) on
the first count, which a conversation far from its limits never needs.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import msgspec

from mainstay.core.budgeted_side_calls import estimate_tokens
from mainstay.core.ports import ModelInfo, Tokenizer

SLICE_CHARS = 4096  # characters encoded at once: the cost of one endless word grows with its length squared
_UNKNOWN_FAMILY_SCALE = (
    1.1  # factor for models with an unpublished vocabulary, until the provider reports its own counts
)
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


IMAGE_TOKENS = 4096  # of an image, for unknown models, but at most an eighth of their window
IMAGE_TOKENS_MAX = 36_835
_IMAGE_TOKENS_BY_MODEL: tuple[tuple[str, int], ...] = (  # tokens of a large image, by the providers' documentation
    (r"claude", 1600),
    (r"gpt-4o-mini", IMAGE_TOKENS_MAX),
    (r"gpt-(?:4\.1|5[^-]*)-nano", 3779),
    (r"gpt-(?:4\.1|5[^-]*)-mini|o4-mini", 2642),
    (r"gpt-|\bo[1-9]\b", 1445),
    (r"gemini", 2580),
)


class SplintrTokenizer:
    """Exact token counts for the vocabularies in the splintr wheel. `image_tokens` is the count for one image."""

    def __init__(self, encoding: str, scale: float = 1.0, image_tokens: int = IMAGE_TOKENS) -> None:
        # a new name makes callers recount
        self.name = encoding if image_tokens <= IMAGE_TOKENS else f"{encoding}/{image_tokens}"
        self.scale = scale
        self.image_tokens = image_tokens
        self._vocabulary = encoding
        self._encoding: Any = None

    def count(self, text: str) -> int:
        if self._encoding is None:
            self._encoding = _load_vocabulary(self._vocabulary)
        encode = self._encoding.encode_ordinary
        try:
            if len(text) <= SLICE_CHARS:
                return len(encode(text))
            return sum(len(encode(piece)) for piece in split_slices(text))
        except UnicodeEncodeError:  # lone surrogates, which no request contains
            return self.count(text.encode(errors="replace").decode())


class ByteTokenizer:
    """Estimate without a vocabulary: bytes / 4, plus a fifth. Not characters: in Chinese each is about one token."""

    name = "bytes"
    scale = 1.0

    def __init__(self, image_tokens: int = IMAGE_TOKENS) -> None:
        self.image_tokens = image_tokens

    def count(self, text: str) -> int:
        return -(-len(text.encode(errors="replace")) * 3 // 10)


def split_slices(text: str) -> list[str]:
    """Split a long text, before a space or line break if possible, where tokens end too."""
    parts, start = [], 0
    while len(text) - start > SLICE_CHARS:
        end = start + SLICE_CHARS
        space = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        end = space if space > start + SLICE_CHARS // 2 else end
        parts.append(text[start:end])
        start = end
    parts.append(text[start:])
    return parts


def tokenizer_for(model: ModelInfo) -> Tokenizer:
    name = model.name.lower()
    unknown = min(IMAGE_TOKENS, model.window // 8)
    image = next((tokens for pattern, tokens in _IMAGE_TOKENS_BY_MODEL if re.search(pattern, name)), unknown)
    for pattern, encoding, scale in _FAMILIES:
        if re.search(pattern, name):
            return _cached_tokenizer(encoding, scale, image)
    return _cached_tokenizer("o200k_base", _UNKNOWN_FAMILY_SCALE, image)


@cache
def _cached_tokenizer(encoding: str, scale: float, image_tokens: int) -> Tokenizer:
    try:
        import splintr  # noqa: F401  # takes 8 ms, and is only needed when something has to be counted
    except ImportError:
        return ByteTokenizer(image_tokens)
    return SplintrTokenizer(encoding, scale, image_tokens)


@cache
def _load_vocabulary(name: str) -> Any:
    import splintr  # its vocabulary is tens of megabytes

    return splintr.Tokenizer.from_pretrained(name)


class TokenCalibration(msgspec.Struct):
    """What was learnt about one model: its tokenizer, a correction factor, and its limits.

    `factor` grows with the usage that the provider reports, and never shrinks.
    """

    tokenizer: Tokenizer
    factor: float
    window: int | None = None  # the window the provider named in a refusal, if smaller than expected
    total_guess: int | None = None  # largest request by our count, guessed after a refusal that named no smaller window
    supports_tools: bool = True  # False once the provider has refused tools for this model

    def learn(self, counted: int, reported: int) -> None:
        """Raise the factor if the provider reported more tokens than expected; `counted` is without the factor."""
        if counted > 0 and reported > counted * self.factor:
            self.factor = min(reported / counted, CALIBRATION_FACTOR_MAX)


CALIBRATION_FACTOR_MAX = 4.0


def count_for_model(text: str, calibration: TokenCalibration | ModelInfo) -> int:
    """Count a text's tokens for a model, rather too high; without a vocabulary, estimate them from the bytes."""
    tokenizer = calibration.tokenizer if isinstance(calibration, TokenCalibration) else tokenizer_for(calibration)
    if isinstance(tokenizer, ByteTokenizer):
        return estimate_tokens(text)
    factor = calibration.factor if isinstance(calibration, TokenCalibration) else tokenizer.scale
    return math.ceil(tokenizer.count(text) * factor)


class CalibrationRegistry:
    """Calibrations by model, shared by all lanes."""

    def __init__(self) -> None:
        self._by_model: dict[str, TokenCalibration] = {}

    def for_model(self, model: ModelInfo) -> TokenCalibration:
        scale = self._by_model.get(model.name)
        if scale is None:
            tokenizer = tokenizer_for(model)
            scale = self._by_model[model.name] = TokenCalibration(tokenizer, tokenizer.scale)
        return scale
