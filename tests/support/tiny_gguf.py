"""A model of a hundred kilobytes that llama.cpp loads and runs: random weights, one layer, a vocabulary of bytes.

It babbles, but it babbles through everything that a real one goes through: the loader, the template, the grammar, the
cache. It is written here by hand, so that nothing has to be downloaded.
"""

from __future__ import annotations

import random
import struct
from array import array
from pathlib import Path

WIDTH, HEADS, CONTEXT = 32, 2, 32768
END = 2  # the token that ends an answer
_ALIGNMENT = 32
_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_UNKNOWN, _NORMAL, _CONTROL, _BYTE = 2, 1, 3, 6
_U32, _F32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9


def token(char: str) -> int:
    """The number of a printable character."""
    return 3 + 256 + ord(char) - 32


def write_tiny_gguf(path: Path, seed: int = 0) -> Path:
    tokens, kinds, scores = _vocabulary()
    tensors = _tensors(random.Random(seed), len(tokens))
    facts = [
        _fact("general.architecture", _STRING, _text("llama")),
        *(_fact(f"llama.{name}", _U32, struct.pack("<I", value)) for name, value in _SIZES.items()),
        _fact("llama.attention.layer_norm_rms_epsilon", _F32, struct.pack("<f", 1e-5)),
        _fact("tokenizer.ggml.model", _STRING, _text("llama")),
        _fact("tokenizer.ggml.tokens", _ARRAY, _list(_STRING, [_text(one) for one in tokens])),
        _fact("tokenizer.ggml.scores", _ARRAY, _list(_F32, [struct.pack("<f", one) for one in scores])),
        _fact("tokenizer.ggml.token_type", _ARRAY, _list(5, [struct.pack("<i", one) for one in kinds])),
        _fact("tokenizer.ggml.bos_token_id", _U32, struct.pack("<I", 1)),
        _fact("tokenizer.ggml.eos_token_id", _U32, struct.pack("<I", END)),
        _fact("tokenizer.ggml.add_bos_token", _BOOL, b"\0"),
        _fact("tokenizer.ggml.add_space_prefix", _BOOL, b"\0"),
        _fact("tokenizer.chat_template", _STRING, _text(_TEMPLATE)),
    ]
    heads, bodies, offset = [], [], 0
    for name, shape, values in tensors:
        body = array("f", values).tobytes()
        body += bytes(-len(body) % _ALIGNMENT)
        sizes = b"".join(struct.pack("<Q", one) for one in shape)
        heads.append(_text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", 0, offset))
        bodies.append(body)
        offset += len(body)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)) + b"".join(facts) + b"".join(heads)
    path.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + b"".join(bodies))
    return path


_SIZES = {
    "context_length": CONTEXT,
    "embedding_length": WIDTH,
    "block_count": 1,
    "feed_forward_length": WIDTH,
    "attention.head_count": HEADS,
    "attention.head_count_kv": HEADS,
    "rope.dimension_count": WIDTH // HEADS,
}


def _vocabulary() -> tuple[list[str], list[int], list[float]]:
    letters = ["\u2581" if code == 32 else chr(code) for code in range(32, 127)]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{code:02X}>" for code in range(256)), *letters]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256, *[_NORMAL] * len(letters)]
    scores = [0.0] * 3 + [-1000.0] * 256 + [-float(number) for number in range(len(letters))]
    return tokens, kinds, scores


def _tensors(chance: random.Random, words: int) -> list[tuple[str, tuple[int, ...], list[float]]]:
    def some(*shape: int) -> tuple[tuple[int, ...], list[float]]:
        count = shape[0] * shape[1]
        return shape, [chance.gauss(0, 0.3) for _ in range(count)]

    ones = ((WIDTH,), [1.0] * WIDTH)
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    return [
        ("token_embd.weight", *some(WIDTH, words)),
        ("output.weight", *some(WIDTH, words)),
        ("output_norm.weight", *ones),
        ("blk.0.attn_norm.weight", *ones),
        ("blk.0.ffn_norm.weight", *ones),
        *((f"blk.0.{name}.weight", *some(WIDTH, WIDTH)) for name in square),
    ]


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _fact(name: str, kind: int, value: bytes) -> bytes:
    return _text(name) + struct.pack("<I", kind) + value


def _list(kind: int, items: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)
