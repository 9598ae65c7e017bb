"""The local embedder and its text chunks."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import math
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest
from support.serving import until

from mainstay.core.errors import EmbedderMissing
from mainstay.memory.embedders.local import embedder as local_embedder
from mainstay.memory.embedders.local.embedder import LocalEmbedder
from mainstay.memory.vector_indexer import CHUNK_CHARS_MAX, CHUNKS_MAX, split_chunks

installed = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None, reason="needs the extra: pip install -e '.[memory]'"
)
TEXTS = [
    "The invoice was paid on Friday.",
    "Somebody settled the bill at the end of the week.",
    "Hedgehogs sleep through the winter.",
    "naïve café in Zürich",
    "私は東京に住んでいます",
    "x",
    "line one\nline two\t and, more; punctuation!",
]


def cosine(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(array("f", one), array("f", other), strict=True))


@installed
async def test_vectors_have_unit_length_and_the_size_that_loading_says() -> None:
    embedder = LocalEmbedder()
    size = await embedder.load()
    vectors = await embedder.embed(TEXTS)
    assert [len(vector) for vector in vectors] == [4 * size] * len(TEXTS)
    assert all(math.isclose(cosine(vector, vector), 1, rel_tol=1e-5) for vector in vectors)


@installed
async def test_similar_meanings_are_nearer_than_different_ones() -> None:
    paid, settled, hedgehogs = await LocalEmbedder().embed(TEXTS[:3])
    assert cosine(paid, settled) > cosine(paid, hedgehogs) + 0.1


@installed
async def test_a_text_without_anything_in_it_is_near_to_nothing() -> None:
    empty, word = await LocalEmbedder().embed(["", "word"])
    assert not any(empty)
    assert len(empty) == len(word)
    assert cosine(empty, word) == 0


@installed
async def test_a_text_has_the_same_vector_in_any_batch() -> None:
    embedder = LocalEmbedder()
    alone = [(await embedder.embed([text]))[0] for text in TEXTS]
    assert await embedder.embed(TEXTS * 100) == alone * 100


@installed
async def test_vectors_agree_with_the_packages_own() -> None:
    numpy = pytest.importorskip("numpy")
    inference = pytest.importorskip("wordllama.inference")
    tokenizers = pytest.importorskip("tokenizers")
    folder = local_embedder._find_model_folder()
    table = local_embedder._load_model(folder)._table
    words = tokenizers.Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    theirs = inference.WordLlamaInference(table, words).embed(TEXTS, norm=True)
    ours = [numpy.frombuffer(vector, dtype="float32") for vector in await LocalEmbedder().embed(TEXTS)]
    assert numpy.allclose(theirs, numpy.stack(ours), atol=1e-6)


@installed
@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, "漢" * 100_000, " " * 100_000, "\ud800 half a pair", "\0", "🎉" * 9_000]
)
async def test_any_text_has_a_vector_in_bounded_time(text: str) -> None:
    embedder = LocalEmbedder()
    await embedder.load()
    began = time.process_time()
    (vector,) = await embedder.embed([text])
    assert time.process_time() - began < 0.5
    assert len(vector) == 1024


@installed
async def test_nothing_happens_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, int] = {}

    def note_thread(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def noted(*args: Any) -> Any:
            threads[name] = threading.get_ident()
            return function(*args)

        monkeypatch.setattr(owner, name, noted)

    note_thread(local_embedder, "_share_model")
    note_thread(local_embedder._WordVectorModel, "embed")
    embedder = LocalEmbedder()
    await embedder.load()
    await embedder.embed(TEXTS)
    assert sorted(threads) == ["_share_model", "embed"]
    assert threading.get_ident() not in threads.values()


@installed
async def test_concurrent_callers_get_the_same_loading_model() -> None:
    embedder = LocalEmbedder()
    _, one, other = await asyncio.gather(embedder.load(), embedder.embed(["x"]), embedder.embed(["x"]))
    assert one == other


@installed
async def test_all_embedders_of_a_process_share_one_model_that_is_freed_with_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[Path] = []
    load = local_embedder._load_model
    monkeypatch.setattr(local_embedder, "_load_model", lambda folder: (loaded.append(folder), load(folder))[1])
    monkeypatch.setattr(local_embedder, "_shared_models", WeakValueDictionary())  # other tests may hold one
    embedders = [LocalEmbedder() for _ in range(4)]
    await asyncio.gather(*(embedder.load() for embedder in embedders))
    assert len(loaded) == 1
    await embedders[0].close()
    assert await embedders[1].embed(["one"]) == await embedders[0].embed(["one"])
    assert len(loaded) == 1
    for embedder in embedders:
        await embedder.close()

    def is_freed() -> bool:
        gc.collect()
        return not local_embedder._shared_models

    await until(is_freed)  # a worker thread may hold the result of its last job a moment longer


@installed
async def test_it_can_be_closed_and_used_again() -> None:
    embedder = LocalEmbedder()
    before = await embedder.embed(["one"])
    await embedder.close()
    await embedder.close()
    assert await embedder.embed(["one"]) == before


@installed
def test_importing_and_finding_the_model_does_not_import_the_package() -> None:
    code = (
        "import sys, mainstay.memory.embedders.local.embedder as e\n"
        "assert 'numpy' not in sys.modules and 'tokenizers' not in sys.modules\n"
        "e._load_model(e._find_model_folder())\n"
        "assert 'wordllama' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


async def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embedder, "find_spec", lambda name: None)
    for attempt in (LocalEmbedder().load(), LocalEmbedder().embed(["x"])):
        with pytest.raises(EmbedderMissing, match=r"pip install -e '.\[memory\]'"):
            await attempt


async def test_without_a_package_that_it_needs_it_says_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setattr(local_embedder, "_find_model_folder", lambda: tmp_path)
    with pytest.raises(EmbedderMissing, match=r"tokenizers.*pip install"):
        await LocalEmbedder().load()


BROKEN = {
    "empty": b"",
    "short": b"\x10\0\0\0\0\0\0\0{}",
    "rubbish": b"rubbish " * 100,
    "no table": (2).to_bytes(8, "little") + b"{}",
    "cut": (87).to_bytes(8, "little")
    + b'{"embedding.weight":{"dtype":"F16","shape":[32000,256],"data_offsets":[0,16384000]}}   ',
    "other numbers": (70).to_bytes(8, "little")
    + b'{"embedding.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_model_is_one_sentence(content: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("tokenizers")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "l2_supercat_256.safetensors").write_bytes(content)
    monkeypatch.setattr(local_embedder, "_find_model_folder", lambda: tmp_path)
    with pytest.raises(EmbedderMissing) as caught:
        await LocalEmbedder().load()
    assert "\n" not in str(caught.value)
    assert "cannot be read" in str(caught.value)


# --- pieces --------------------------------------------------------------------------------------


def test_a_short_text_is_one_piece_and_an_empty_one_none() -> None:
    assert split_chunks("a few words") == ["a few words"]
    assert split_chunks("") == split_chunks(" \n ") == []


def test_a_long_text_is_cut_between_paragraphs_then_lines_then_sentences_then_words() -> None:
    half = "word " * 120
    assert split_chunks(f"{half}\n\n{half}\n{half}") == [
        half.strip(),
        f"{half}\n{half}"[: len(half)].strip(),
        half.strip(),
    ]
    assert all(piece.endswith(".") for piece in split_chunks("A short sentence. " * 100))
    assert all(set(piece.split()) == {"word"} for piece in split_chunks("word " * 1000))


def test_pieces_are_bounded_in_number_and_length_for_any_text() -> None:
    for text in ("x" * 100_000, "漢。" * 50_000, "\n" * 100_000 + "y", "a b " * 30_000):
        made = split_chunks(text)
        assert len(made) <= CHUNKS_MAX
        assert all(0 < len(piece) <= CHUNK_CHARS_MAX for piece in made)


def test_nothing_between_two_pieces_is_lost() -> None:
    text = "".join(f"Sentence number {n} is here. " for n in range(200))
    assert " ".join(split_chunks(text)) == text.strip()
