"""Weights are downloaded from any source, complete and verified, or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest
from support.paths import PYTHONPATH
from support.pull_support import DATA, HALF, OTHER, SIZE, Hub, weights

from mainstay.core.errors import ConfigError
from mainstay.providers.local.catalogue import CATALOGUE, DEFAULT_WEIGHTS, Weights, is_pulled, list_pulled
from mainstay.providers.local.download_sources import DownloadTimeouts, HubSource, check_download_url, find_local_copies
from mainstay.providers.local.partial_file import DownloadFailed, PartialFile, SourceFailed, partial_size_bytes
from mainstay.providers.local.pull import PullObserver, PullResult, prepare_folder, pull_weights, remove_weights
from mainstay.providers.local.weights_in_wheels import _pip_environment

QUICK = DownloadTimeouts(retry_base_s=0.0, response_timeout_s=20.0, retries_max=3)
START_S = 120

MakeHub = Callable[..., Hub]


@pytest.fixture
def hub() -> Iterator[MakeHub]:
    made: list[Hub] = []

    def make(*ways: str) -> Hub:
        made.append(Hub(*ways))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "models"


def pull_file(one: Weights, place: Path, given: str = "", bounds: DownloadTimeouts = QUICK) -> PullResult:
    return pull_weights(one, place, source_spec=given, env={}, bounds=bounds)


def left(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()} - {".pull.lock"}


# --- a hub ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["well", "whole", "onward"])
def test_a_hub_brings_the_file(hub: MakeHub, place: Path, way: str) -> None:
    there = hub(way, "well")
    done = pull_file(weights(there.url), place)
    assert done.path.read_bytes() == DATA
    assert (done.downloaded_bytes, done.source) == (SIZE, there.url.split("/")[2])
    assert left(place) == {"tiny.gguf"}
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(done.path.stat().st_mode) == 0o600


def test_an_installed_file_is_not_downloaded_again(hub: MakeHub, place: Path) -> None:
    there = hub("well")
    pull_file(weights(there.url), place)
    assert pull_file(weights(there.url), place) == PullResult(path=place / "tiny.gguf")
    assert len(there.asked) == 1


def test_after_a_cut_only_the_rest_is_asked_for(hub: MakeHub, place: Path) -> None:
    there = hub("half", "half", "well")
    assert pull_file(weights(there.url), place).path.read_bytes() == DATA
    assert there.asked == [None, f"bytes={HALF}-", f"bytes={HALF + HALF // 2}-"]


def test_a_hub_that_knows_no_ranges_is_not_started_over_on_disk(hub: MakeHub, place: Path) -> None:
    there = hub("half", "whole")
    seen: list[int] = []
    done = pull_weights(weights(there.url), place, env={}, observer=PullObserver(on_progress=seen.append), bounds=QUICK)
    assert done.path.read_bytes() == DATA
    assert seen == sorted(seen)


def test_a_hub_that_disconnects_in_the_middle_is_retried_for_a_while(hub: MakeHub, place: Path) -> None:
    there = hub("half", "silence", "well")
    quick = msgspec.structs.replace(QUICK, response_timeout_s=2.0)
    assert pull_file(weights(there.url), place, bounds=quick).path.read_bytes() == DATA
    assert len(there.asked) == 3


def test_a_hub_that_is_busy_is_asked_again(hub: MakeHub, place: Path) -> None:
    there = hub("busy", "busy", "well")
    assert pull_file(weights(there.url), place).path.read_bytes() == DATA


@pytest.mark.parametrize(
    ("ways", "says"),
    [
        (("nothing",), "it stopped in the middle of the file, 4 times in a row"),
        (("busy",), "it answers with status 503, 4 times in a row"),
        (("missing",), "it answers with status 404"),
        (("longer",), f"its file has {SIZE + 1:,} bytes, and tiny has {SIZE:,}"),
        (("page",), "it sent a web page instead of the file"),
        (("noise",), "it did not send a GGUF file"),
        (("packed",), "it sends the file compressed"),
        (("round",), "it redirects too often"),
        (("outside",), "weights are only downloaded over https"),
        (("file",), "it redirects too often"),
        (("other",), "its file is not tiny: it has another hash and was removed"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_hub_that_sends_another_file_is_reported_and_leaves_nothing(
    hub: MakeHub, place: Path, ways: tuple[str, ...], says: str
) -> None:
    there = hub(*ways)
    with pytest.raises(DownloadFailed) as refused:
        pull_file(weights(there.url), place)
    assert says in str(refused.value)
    assert there.url.split("/")[2] in str(refused.value)
    assert left(place) == set()


@pytest.mark.parametrize(
    ("way", "says"), [("elsewhere", "another part of the file than requested"), ("endlessly", "it sent more than")]
)
def test_a_hub_that_continues_with_other_bytes_is_refused_and_the_earlier_bytes_stay(
    hub: MakeHub, place: Path, way: str, says: str
) -> None:
    there = hub("half", way)
    with pytest.raises(DownloadFailed, match=f"{says}.* of 3 MB are downloaded"):
        pull_file(weights(there.url), place)
    assert partial_size_bytes(weights(there.url), place) >= HALF
    there.ways = ["well"]
    assert pull_file(weights(there.url), place).path.read_bytes() == DATA


def test_a_hub_that_is_silent_is_given_up(hub: MakeHub, place: Path) -> None:
    with pytest.raises(DownloadFailed, match="no response in time"):
        pull_file(weights(hub("silence").url), place, bounds=DownloadTimeouts(response_timeout_s=0.2, retry_base_s=0.0))


def test_a_hub_that_sends_too_slowly_counts_as_cut(hub: MakeHub, place: Path) -> None:
    there = hub("well")
    hours = count(0, 3600)  # one passes whenever it looks
    slow = HubSource(
        there.url, DownloadTimeouts(retries_max=0, slow_window_bytes_min=SIZE * 2), clock=lambda: float(next(hours))
    )
    place.mkdir()
    said = "only [0-9,]+ bytes arrived in 3600 s"
    with PartialFile(weights(there.url), place, lambda have: None) as growing, pytest.raises(SourceFailed, match=said):
        slow.download_to(growing)


@pytest.mark.parametrize("url", ["http://example.com/x", "ftp://h/x", "file:///x", "https://", "https://h:99999/", "x"])
def test_only_https_and_this_machine_are_asked(url: str, place: Path) -> None:
    with pytest.raises(SourceFailed):
        check_download_url(url)
    with pytest.raises(ConfigError):
        pull_file(weights(), place, url)
    assert not place.exists()


def test_a_password_in_an_address_is_not_printed() -> None:
    assert HubSource("https://somebody:secret@hub.example/x").name == "hub.example"


# --- a file --------------------------------------------------------------------------------------


def test_a_file_is_copied_and_checked(tmp_path: Path, place: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(DATA)
    assert pull_file(weights(), place, str(file)).path.read_bytes() == DATA
    assert file.read_bytes() == DATA


def test_a_folder_may_hold_the_file(tmp_path: Path, place: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(DATA)
    assert pull_file(weights(), place, str(tmp_path)).path.read_bytes() == DATA


@pytest.mark.parametrize(
    ("data", "says"),
    [(OTHER, "another hash and was removed"), (DATA[:-1], "so it is not tiny"), (b"<html>", "so it is not tiny")],
    ids=["other", "short", "page"],
)
def test_a_file_that_is_another_is_refused(tmp_path: Path, place: Path, data: bytes, says: str) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(data)
    with pytest.raises(DownloadFailed, match=says):
        pull_file(weights(), place, str(file))
    assert left(place) == set()


def test_a_missing_file_changes_nothing(place: Path) -> None:
    with pytest.raises(ConfigError, match="--from takes a file, a folder, an https address, or `wheels`"):
        pull_file(weights(), place, "/nowhere/x.gguf")
    assert not place.exists()


def test_a_file_of_another_program_is_used_before_a_hub_is_asked(
    hub: MakeHub, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = hub("well")
    one = weights(there.url)
    blob = tmp_path / "ollama" / "blobs" / f"sha256-{one.sha256}"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(DATA)
    env = {"OLLAMA_MODELS": str(tmp_path / "ollama")}
    assert list(find_local_copies(one, env)) == [blob]
    assert pull_weights(one, place, env=env, bounds=QUICK).source == str(blob)
    assert there.asked == []


def test_a_wrong_file_of_another_program_is_skipped(hub: MakeHub, tmp_path: Path, place: Path) -> None:
    there = hub("well")
    one = weights(there.url)
    blob = tmp_path / "hub" / "models--tiny.gguf" / "blobs" / one.sha256
    blob.parent.mkdir(parents=True)
    blob.write_bytes(OTHER)
    told: list[str] = []
    done = pull_weights(
        one, place, env={"HF_HUB_CACHE": str(tmp_path / "hub")}, observer=PullObserver(told.append), bounds=QUICK
    )
    assert done.path.read_bytes() == DATA
    assert [line for line in told if str(blob) in line and "another hash" in line and "trying 127.0.0.1" in line]


# --- going on ------------------------------------------------------------------------------------


def test_a_partial_download_is_continued(hub: MakeHub, place: Path) -> None:
    there = hub("well")
    place.mkdir()
    (place / "tiny.gguf.part").write_bytes(DATA[:HALF])
    assert pull_file(weights(there.url), place).downloaded_bytes == SIZE - HALF
    assert there.asked == [f"bytes={HALF}-"]


def test_a_damaged_partial_download_is_started_over(hub: MakeHub, place: Path) -> None:
    there = hub("well")
    place.mkdir()
    (place / "tiny.gguf.part").write_bytes(OTHER[:HALF])
    told: list[str] = []
    done = pull_weights(weights(there.url), place, env={}, observer=PullObserver(told.append), bounds=QUICK)
    assert done.path.read_bytes() == DATA
    assert there.asked == [f"bytes={HALF}-", None]
    assert told == ["the partial file of an earlier attempt is wrong; starting over"]


@pytest.mark.parametrize("part", [DATA, OTHER, DATA + b"!"], ids=["right", "wrong", "long"])
def test_a_complete_partial_file_is_used_or_downloaded_again(hub: MakeHub, place: Path, part: bytes) -> None:
    there = hub("well")
    place.mkdir()
    (place / "tiny.gguf.part").write_bytes(part)
    assert pull_file(weights(there.url), place).path.read_bytes() == DATA
    assert there.asked == ([] if part == DATA else [None])


def child(code: str, *words: str) -> subprocess.Popen[str]:
    """A process that pulls, from a script with what it needs at hand."""
    head = "import sys\nfrom support.pull_support import *\nfrom mainstay.providers.local.pull import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )


@pytest.fixture
def stalled(hub: MakeHub, place: Path) -> Iterator[tuple[Hub, subprocess.Popen[str]]]:
    """A pull in another process that has half of it and waits for the rest."""
    there = hub("and_wait", "well")
    running = child("pull_weights(weights(sys.argv[1]), Path(sys.argv[2]), env={})", there.url, str(place))
    until = time.monotonic() + START_S
    while partial_size_bytes(weights(there.url), place) < HALF:
        assert running.poll() is None, running.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.01)
    yield there, running
    running.kill()
    running.communicate()


def test_a_pull_that_was_killed_goes_on_where_it_was(stalled: tuple[Hub, subprocess.Popen[str]], place: Path) -> None:
    there, running = stalled
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = pull_file(weights(there.url), place)
    assert (done.path.read_bytes() == DATA, done.downloaded_bytes) == (True, SIZE - HALF)
    assert there.asked == [None, f"bytes={HALF}-"]


def test_one_process_at_a_time_downloads_and_the_other_is_told_which(
    stalled: tuple[Hub, subprocess.Popen[str]], place: Path
) -> None:
    there, running = stalled
    with pytest.raises(DownloadFailed, match=rf"another process \({running.pid}\) is downloading weights"):
        pull_file(weights(there.url), place)
    with pytest.raises(DownloadFailed, match="another process"):
        remove_weights(weights(there.url), place)
    assert partial_size_bytes(weights(there.url), place) == HALF


# --- the disk ------------------------------------------------------------------------------------


def test_room_is_looked_for_before_anything_is_fetched(hub: MakeHub, place: Path) -> None:
    there = hub("well")
    huge = msgspec.structs.replace(weights(there.url), size_bytes=10**18)
    with pytest.raises(
        DownloadFailed, match=r"1000000000\.\d GB of disk are needed at .*; set MAINSTAY_MODELS to another"
    ):
        pull_file(huge, place)
    assert there.asked == []
    assert left(place) == set()


def test_a_disk_that_takes_no_more_keeps_what_it_took(tmp_path: Path, place: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(DATA)
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({HALF}, {HALF}))\n"
        "try: pull_weights(weights(), Path(sys.argv[2]), source_spec=sys.argv[1], env={})\n"
        "except DownloadFailed as error: print(error)"
    )
    said, _ = child(code, str(file), str(place)).communicate(timeout=START_S)
    assert "File too large; 2 of 3 MB are downloaded: `mainstay model pull tiny` resumes the download" in said
    assert pull_file(weights(), place, str(file)).downloaded_bytes == SIZE - HALF


def test_a_folder_that_may_not_be_written_is_one_sentence(tmp_path: Path, place: Path) -> None:
    place.mkdir(mode=0o500)
    code = (
        "import os\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: pull_weights(weights(), Path(sys.argv[1]), env={})\n"
        "except DownloadFailed as error: print(error)"
    )
    said, _ = child(code, str(place)).communicate(timeout=START_S)
    assert said.strip().endswith("Permission denied")
    assert said.count("\n") == 1


def test_a_file_in_the_place_of_the_folder_is_one_sentence(place: Path) -> None:
    place.write_text("")
    with pytest.raises(DownloadFailed, match="cannot be created"):
        pull_file(weights(), place)


def test_a_folder_that_others_may_write_to_is_refused(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(DownloadFailed, match="chmod go-w"):
        pull_file(weights(), place)
    assert left(place) == set()


def test_a_link_in_the_place_of_the_file_is_not_written_through(hub: MakeHub, tmp_path: Path, place: Path) -> None:
    place.mkdir()
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    (place / "tiny.gguf.part").symlink_to(mine)
    with pytest.raises(DownloadFailed, match="cannot be written"):
        pull_file(weights(hub("well").url), place)
    assert mine.read_bytes() == b"mine"


def test_removing_takes_the_file_and_what_was_left_of_an_attempt(place: Path) -> None:
    with pytest.raises(ConfigError, match="tiny is not downloaded"):
        remove_weights(weights(), place)
    place.mkdir()
    (place / "tiny.gguf").write_bytes(DATA)
    (place / "tiny.gguf.part").write_bytes(DATA[:HALF])
    assert remove_weights(weights(), place) == SIZE + HALF
    assert left(place) == set()


# --- the catalogue -------------------------------------------------------------------------------


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.name)
def test_every_entry_is_pinned_open_and_reachable_by_a_safe_address(one: Weights) -> None:
    assert len(one.sha256) == 64
    assert int(one.sha256, 16) > 0
    assert one.licence in ("Apache-2.0", "MIT")
    check_download_url(one.download_url)
    assert one.download_url.endswith(f"/{one.file_name}")
    assert one.download_url.startswith(f"{one.page_url}/resolve/")
    assert "/main/" not in one.download_url, "a branch moves"
    assert one.size_bytes > 10**8
    assert one.memory_mb * 10**6 > one.size_bytes
    assert os.path.basename(one.file_name) == one.file_name


def test_names_and_files_are_each_of_one_entry_only() -> None:
    for field in ("name", "file_name", "sha256", "download_url"):
        assert len({getattr(one, field) for one in CATALOGUE}) == len(CATALOGUE)
    assert 3 <= len(CATALOGUE) <= 5
    assert DEFAULT_WEIGHTS.wheels is not None


def test_a_file_of_another_size_is_not_installed(place: Path) -> None:
    place.mkdir()
    assert not is_pulled(DEFAULT_WEIGHTS, place)
    (place / DEFAULT_WEIGHTS.file_name).write_bytes(DATA)
    assert list_pulled(place) == []
    os.truncate(place / DEFAULT_WEIGHTS.file_name, DEFAULT_WEIGHTS.size_bytes)
    assert list_pulled(place) == [DEFAULT_WEIGHTS]


@pytest.mark.parametrize("whose", ["others may change it", "others put it there"])
def test_a_file_that_others_could_change_does_not_count_as_verified(whose: str, tmp_path: Path) -> None:
    one = weights()
    file = tmp_path / one.file_name
    file.write_bytes(DATA)
    assert is_pulled(one, tmp_path)
    if whose == "others may change it":
        file.chmod(0o666)
    elif os.getuid() == 0:
        os.chown(file, 65534, 65534)
    else:
        pytest.skip("only root can give a file to somebody else")
    assert not is_pulled(one, tmp_path)


def test_a_folder_that_others_may_write_to_is_refused_though_they_may_not_remove(tmp_path: Path) -> None:
    place = tmp_path / "models"
    place.mkdir()
    place.chmod(0o1777)
    with pytest.raises(DownloadFailed, match="other users may write"):
        prepare_folder(place)


def test_pip_gets_its_configuration_and_no_key() -> None:
    given = {
        "PIP_INDEX_URL": "x",
        "https_proxy": "y",
        "PATH": "z",
        "OPENAI_API_KEY": "sk-1",
        "AWS_SECRET_ACCESS_KEY": "2",
    }
    assert _pip_environment(given) == {"PIP_INDEX_URL": "x", "https_proxy": "y", "PATH": "z"}
