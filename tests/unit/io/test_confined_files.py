"""Confined files: no path leads out, nothing protected is touched, and a file is old or new but never half."""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.io import atomic_write
from mainstay.io.atomic_write import stage_locked_file
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.path_resolver import PathHook, PathMissing, PathRefused, casefold_path
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem

WHOLE = os.environ.get("MAINSTAY_TEST_ALL") == "1"
SECRET = b"the owner's"

both = pytest.mark.parametrize("openat2", [True, False], ids=["openat2", "walk"])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A root with links of every kind, and something outside worth reaching."""
    base = Path(os.path.realpath(tmp_path))
    (base / "outside" / "deep").mkdir(parents=True)
    (base / "outside" / "secret").write_bytes(SECRET)
    (base / "outside" / "deep" / "secret").write_bytes(SECRET)
    root = base / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "f").write_text("f of root")
    (root / "a" / "f").write_text("f of a")
    (root / "a" / "b" / "f").write_text("f of b")
    for name, target in {
        "in": "a/f",
        "in_folder": "a/b",
        "up": "../root/a",
        "abs_in": str(root / "a"),
        "out": "../outside/secret",
        "out_folder": "../outside",
        "abs_out": str(base / "outside"),
        "loop": "loop",
        "gone": "nowhere",
        "a/back": "../f",
        "a/way_up": "../..",
        "chain": "in_folder/f",
    }.items():
        (root / name).symlink_to(target)
    (base / "outside" / "home").symlink_to(root)
    return base


def confined(
    home: Path, *, openat2: bool = True, between: PathHook | None = None, **more: tuple[str, ...]
) -> ConfinedFiles:
    grounds = SessionFolders(cwd=str(home / "root"), writable=(str(home / "root"),), **more)
    return ConfinedFiles(grounds, use_openat2=openat2, before_open=between)


def read(files: ConfinedFiles, path: str) -> bytes:
    return files.read_bytes(path, 1 << 20)[0]


# --- F32: links, .., and what is no file ----------------------------------------------------------


@both
@pytest.mark.parametrize("path", ["in", "in_folder/f", "up/f", "abs_in/b/f", "a/back", "chain", "a/way_up/root/f"])
def test_links_that_stay_inside_are_followed(home: Path, path: str, openat2: bool) -> None:
    assert read(confined(home, openat2=openat2), path) == (home / "root" / path).read_bytes()


@both
@pytest.mark.parametrize(
    "path",
    [
        *("out", "out_folder/secret", "abs_out/secret", "../outside/secret", "a/../../outside/secret"),
        *("a/way_up/outside/secret", "./././../outside/secret", "abs_out/deep/../secret", "loop", "gone"),
    ],
)
def test_links_and_dots_that_leave_are_refused_in_a_sentence_f32(home: Path, path: str, openat2: bool) -> None:
    for given_path in (path, f"{home}/root/{path}"):
        with pytest.raises(PathRefused) as refused:
            read(confined(home, openat2=openat2), given_path)
        assert str(refused.value).count("\n") == 0
        assert SECRET.decode() not in str(refused.value)


@both
def test_any_path_resolves_as_the_kernel_says_and_only_inside_f32(home: Path, openat2: bool) -> None:
    root = str(home / "root")
    files = confined(home, openat2=openat2)
    step = st.sampled_from(
        [
            *("..", ".", "", "a", "b", "f", "in", "in_folder", "up", "abs_in", "out", "out_folder", "abs_out", "loop"),
            *(
                "back",
                "way_up",
                "chain",
                "root",
                "outside",
                "secret",
                "deep",
                "home",
                "nothing",
                "..\\",
                "\uff0e\uff0e",
                "%2e%2e",
            ),
        ]
    )
    begin = st.sampled_from(["", f"{root}/", f"{home}/", f"{home}/outside/home/", "/"])

    @settings(max_examples=3_000 if WHOLE else 400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(begin, st.lists(step, max_size=7))
    def check(start: str, steps: list[str]) -> None:
        path = start + "/".join(steps)
        real = _kernels(os.path.join(root, path))
        try:
            data, opened = files.read_bytes(path, 1 << 20)
        except PathRefused:
            assert real is None or not real.startswith(root + "/"), f"{path} is ours: {real}"
            return
        assert opened.path.startswith(root + "/")
        assert data == Path(opened.path).read_bytes() != SECRET
        assert real in (None, opened.path)  # None: a file with a slash behind it, which we are lenient about

    check()


def _kernels(path: str) -> str | None:
    """The file that the kernel finds, by its real path."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        return None if stat.S_ISDIR(os.fstat(file).st_mode) else os.path.realpath(path)
    finally:
        os.close(file)


HARD = [
    *(
        "",
        " ",
        "\0",
        "f\0",
        "~",
        "~/x",
        "~root",
        "\\",
        "..\\..\\etc\\passwd",
        "a/./../../../etc/passwd",
        "//etc/passwd",
    ),
    *(
        "%2e%2e/%2e%2e/etc/passwd",
        "\uff0e\uff0e\uff0fetc",
        "..\uff0f..",
        "…/…",
        "\u2024\u2024/x",
        "f.",
        "f ",
        "CON",
        "nul.txt",
        "a" * 300,
    ),
    *(
        "a/" * 2_100 + "f",
        "x" * 5_000,
        "\ud800",
        "f\u200b",
        "\u202ef",
        "f\n",
        "\r",
        "-rf",
        "$(id)",
        "`id`",
        "file:///etc",
    ),
    *("/etc/passwd", "/proc/self/root/etc/passwd", "/proc/self/cwd/f", "/dev/stdin", "/sys/kernel", "/dev/fd/0"),
    *("../root/../outside/secret", "İ", "\u0131", "ﬁ", "é", "é", "/", ".", "..", "../..", "\x7f", "a//b///f"),
]


@both
@pytest.mark.parametrize("number", range(len(HARD)))
def test_hard_paths_are_read_inside_or_refused_f31(home: Path, number: int, openat2: bool) -> None:
    """F31."""
    path = HARD[number]
    files = confined(home, openat2=openat2)
    for act in (lambda: read(files, path), lambda: files.write_file(path, b"new").path.encode()):
        said = _said(act)
        assert said != SECRET
    assert sorted(entry.name for entry in home.iterdir()) == ["outside", "root"]
    assert (home / "outside" / "secret").read_bytes() == SECRET


def _said(act: Callable[[], bytes]) -> bytes:
    try:
        return act()
    except PathRefused as error:
        sentence = str(error)
    assert len(sentence) < 400
    assert sentence.isprintable()
    return sentence.encode()


@both
def test_pipes_sockets_and_devices_are_refused_without_being_opened_f32(home: Path, openat2: bool) -> None:
    root = home / "root"
    os.mkfifo(root / "fifo")
    (root / "to_null").symlink_to("/dev/null")
    (root / "to_environ").symlink_to("/proc/self/environ")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(root)  # the name of a socket has no room for a long path
        try:
            listening.bind("sock")
        finally:
            os.chdir(here)
        files = confined(home, openat2=openat2)
        for name, said in {"fifo": "a pipe", "sock": "a socket"}.items():
            for act in (lambda name=name: read(files, name), lambda name=name: files.write_file(name, b"x")):
                with pytest.raises(PathRefused, match=said):
                    act()
        for name in ("to_null", "to_environ", "/proc/self/environ", "/dev/zero", "/proc/self/fd/0"):
            with pytest.raises(PathRefused):
                read(files, name)


def test_proc_is_refused_even_where_everything_may_be_read_f32(home: Path) -> None:
    files = ConfinedFiles(SessionFolders(cwd=str(home / "root"), writable=(str(home / "root"),), readable=("/",)))
    assert read(files, str(home / "outside" / "secret")) == SECRET
    (home / "root" / "status").symlink_to("/proc/self/status")
    for path in ("/proc/self/status", "/proc/self/environ", "status", "/dev/null", "/proc/self/root/etc/hostname"):
        with pytest.raises(PathRefused):
            read(files, path)


@both
@pytest.mark.parametrize("name", ["a", "a/b", "a/b/f"])
def test_a_link_swapped_in_between_check_and_open_is_not_followed_f32(home: Path, name: str, openat2: bool) -> None:
    """The hook point: what was a folder or a file becomes a link out, at each of the moments there are."""
    swapped, outside = home / "root" / name, home / "outside"
    for path in ("b/f", "f", "a/b/f"):
        (outside / path).parent.mkdir(parents=True, exist_ok=True)
        (outside / path).write_bytes(SECRET)
    target = {"a": outside, "a/b": outside / "b", "a/b/f": outside / "f"}[name]
    for path in ("a/b/f", "in_folder/f", "abs_in/b/f", "a/../a/b/f"):
        for moment in range(8):
            seen: list[str] = []

            def swap(reached: str, seen: list[str] = seen, moment: int = moment) -> None:
                seen.append(reached)
                if len(seen) == moment + 1:
                    swapped.rename(home / "root" / "was")
                    swapped.symlink_to(target)

            files = confined(home, openat2=openat2, between=swap)
            for act in (
                lambda files, path: read(files, path),
                lambda files, path: files.write_file(path, b"f of b").path,
            ):
                try:
                    assert act(files, path) in (b"f of b", str(home / "root" / "a" / "b" / "f"))
                except PathRefused:
                    pass
            assert {(outside / one).read_bytes() for one in ("b/f", "f", "a/b/f")} == {SECRET}
            if swapped.is_symlink():
                swapped.unlink()
            if (home / "root" / "was").exists():
                (home / "root" / "was").rename(swapped)
            assert seen


@both
@pytest.mark.parametrize("act", ["read", "write"])
def test_a_swapper_that_never_rests_wins_nothing_f32(home: Path, act: str, openat2: bool) -> None:
    """A thread swaps a folder and a file for links out as fast as it can, for at least 2,000 tries of ours."""
    root = home / "root"
    (root / "x").mkdir()
    (root / "x" / "secret").write_bytes(b"ours")
    (root / "y").write_bytes(b"ours")
    ended = threading.Event()
    swaps = 0

    def swapper() -> None:
        nonlocal swaps
        while not ended.is_set():
            for name, target in (("x", "../outside"), ("y", "../outside/secret")):
                os.rename(root / name, root / "aside")
                os.symlink(target, root / "to_be")
                os.rename(root / "to_be", root / name)
                os.unlink(root / name)
                os.rename(root / "aside", root / name)
                swaps += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(0.00001)
    thread = threading.Thread(target=swapper)
    thread.start()
    files = confined(home, openat2=openat2)
    won = refused = 0
    tries = 10_000 if WHOLE else 2_000
    try:
        for number in range(tries if act == "read" else tries // 4):
            path = ("x/secret", "y")[number % 2] if act == "read" else "y"
            try:
                if act == "read":
                    assert read(files, path) == b"ours"
                else:
                    files.write_file(path, b"ours")
                won += 1
            except PathRefused:
                refused += 1
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(before)
    assert swaps > 50
    assert won + refused > 400
    assert won
    assert (home / "outside" / "secret").read_bytes() == SECRET
    assert sorted(entry.name for entry in (home / "outside").iterdir()) == ["deep", "home", "secret"]


def test_a_root_inside_another_that_becomes_a_link_is_no_way_out_f32(home: Path) -> None:
    (home / "root" / "lib").mkdir()
    files = confined(home, readable=(str(home / "root" / "lib"),))
    (home / "root" / "lib" / "f").write_text("lib")
    assert read(files, "lib/f") == b"lib"
    with pytest.raises(PathRefused, match="only be read"):
        files.write_file("lib/f", b"x")
    (home / "root" / "lib").rename(home / "root" / "lib.was")
    (home / "root" / "lib").symlink_to("../outside")
    with pytest.raises(PathRefused, match="outside"):
        read(files, "lib/secret")


def test_hard_links_are_read_and_writing_one_leaves_its_other_name_alone_f32(home: Path) -> None:
    os.link(home / "outside" / "secret", home / "root" / "hard")
    files = confined(home)
    files.write_file("hard", b"new")
    assert (home / "root" / "hard").read_bytes() == b"new"
    assert (home / "outside" / "secret").read_bytes() == SECRET


# --- F53: what is protected ------------------------------------------------------------------------


@pytest.fixture
def guarded(home: Path) -> Path:
    root = home / "root"
    (root / ".mainstay" / "deep").mkdir(parents=True)
    (root / ".mainstay" / "config.yaml").write_bytes(SECRET)
    (root / ".mainstay" / "deep" / "journal").write_bytes(SECRET)
    (root / "policy.yaml").write_bytes(SECRET)
    (root / "link").symlink_to("policy.yaml")
    (root / "link_folder").symlink_to(".mainstay")
    (root / "link_abs").symlink_to(root / ".mainstay")
    (root / "a" / "link").symlink_to("../.mainstay/config.yaml")
    os.link(root / "policy.yaml", root / "hard_policy")
    os.link(root / ".mainstay" / "config.yaml", root / "hard_config")
    os.link(root / ".mainstay" / "deep" / "journal", root / "a" / "hard_journal")
    return home


OTHER_NAMES = [
    *("policy.yaml", "POLICY.YAML", "Policy.Yaml", "./policy.yaml", "a/../policy.yaml", "link", "hard_policy"),
    *("in_folder/../../policy.yaml", ".mainstay/config.yaml", ".MAINSTAY/config.yaml", ".Mainstay/Config.yaml"),
    *("link_folder/config.yaml", "link_abs/deep/journal", "a/link", "hard_config", "a/hard_journal", ".mainstay"),
    *(
        ".ma\u200binstay/config.yaml",
        "\uff0emainstay/config.yaml",
        ".main\u017ftay/config.yaml",
        "policy.yaml/",
        "a//..//policy.yaml",
    ),
    *(".mainstay/new", ".mainstay/new/folder/file", ".mainstay/../.mainstay/config.yaml", "up/../policy.yaml"),
]


@both
@pytest.mark.parametrize("number", range(len(OTHER_NAMES)))
def test_a_protected_path_is_neither_read_nor_written_under_any_name_f53(
    guarded: Path, number: int, openat2: bool
) -> None:
    """F53: other cases, links, hard links, dots, and names that some file system takes for the same."""
    root = guarded / "root"
    files = confined(guarded, openat2=openat2, protected=(str(root / ".mainstay"), str(root / "policy.yaml")))
    path = OTHER_NAMES[number]
    for written in (path, f"{root}/{path}"):
        for act in (read, lambda files, path: files.write_file(path, b"x")):
            with pytest.raises(PathRefused):
                act(files, written)
        if path not in ("link", "a/link"):  # the link itself has no label
            with pytest.raises(PathRefused):
                files.remove_file(written)
    with pytest.raises(PathRefused):
        files.list_folder(".mainstay")
    _, listed, _ = files.list_folder(".")
    assert not {"policy.yaml", ".mainstay"} & {one.name for one in listed}
    assert (root / "policy.yaml").read_bytes() == SECRET
    assert (root / ".mainstay" / "config.yaml").read_bytes() == SECRET
    assert sorted(entry.name for entry in (root / ".mainstay").iterdir()) == ["config.yaml", "deep"]
    assert read(files, "f") == b"f of root"


@given(st.text(max_size=12))
@example("\u017f")
@example("\u200b.Git")
@example("ﬀ")
def test_folding_a_name_twice_changes_nothing_more(name: str) -> None:
    assert casefold_path(casefold_path(name)) == casefold_path(name)
    assert casefold_path(name.upper()) == casefold_path(name.upper().lower()) or not name.isascii()


# --- writing ---------------------------------------------------------------------------------------


def test_writing_keeps_the_mode_and_makes_folders_inside(home: Path) -> None:
    files = confined(home)
    (home / "root" / "f").chmod(0o750)
    written = files.write_file("f", b"new")
    assert stat.S_IMODE((home / "root" / "f").stat().st_mode) == 0o750
    assert not written.created
    assert written.fingerprint == compute_fingerprint((home / "root" / "f").stat())
    made = files.write_file("new/er/est", b"x")
    assert made.created
    assert made.created_folders == (str(home / "root" / "new" / "er"), str(home / "root" / "new"))
    assert stat.S_IMODE((home / "root" / "new" / "er").stat().st_mode) & 0o022 == 0


def has_leases(folder: Path) -> bool:
    folder_fd = os.open(folder, os.O_RDONLY)
    try:
        with stage_locked_file(folder_fd, b"x", None, None) as staged:
            try:
                os.close(os.open(folder / staged.name, os.O_WRONLY | os.O_NONBLOCK))
            except BlockingIOError:
                return True
            finally:
                os.unlink(folder / staged.name)
        return False
    finally:
        os.close(folder_fd)


@pytest.mark.skipif(bubblewrap_problem() is not None, reason=bubblewrap_problem() or "")
async def test_the_temporary_file_cannot_be_written_by_a_sandboxed_process(home: Path) -> None:
    root = home / "root"
    if not has_leases(root):
        pytest.skip("this file system has no leases")
    (root / "try.py").write_text(
        "import os, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try: os.open(name, os.O_WRONLY | os.O_NONBLOCK); print('opened')\n"
        "    except BlockingIOError: print('held up')\n"
        "os.link(sys.argv[1], 'other')\n"
        "try: os.open('other', os.O_RDWR | os.O_NONBLOCK); print('opened')\n"
        "except BlockingIOError: print('held up')\n"
        "try: os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK); print('opened')\n"
        "except BlockingIOError: print('held up')\n"
        "print(open(sys.argv[1]).read())\n"
    )
    folders = SessionFolders(cwd=str(root), writable=(str(root),))
    sandbox, folder_fd = BubblewrapSandbox(), os.open(root, os.O_RDONLY)
    try:
        with stage_locked_file(folder_fd, b"ours", None, None) as staged:
            command = SandboxCommand(script=f"{sys.executable} -S try.py {staged.name}", folders=folders)
            result = await sandbox.exec(command)
        assert result.stdout == b"held up\nheld up\nheld up\nours\n", result
        assert (root / staged.name).read_bytes() == b"ours"
        os.close(os.open(root / staged.name, os.O_WRONLY | os.O_NONBLOCK))  # the lease is over
    finally:
        os.close(folder_fd)
        await sandbox.close()


@pytest.mark.parametrize("has_unnamed", [True, False])
def test_a_file_that_takes_the_place_of_the_temporary_one_is_not_taken_for_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, has_unnamed: bool
) -> None:
    """Its fingerprint would become that of a trusted label."""
    root, files = home / "root", confined(home)
    if not has_unnamed:
        monkeypatch.setattr(atomic_write, "_open_unnamed_file", lambda folder: None)

    def swap(path: str, folder_fd: int, resolved: object, expected: str | None) -> None:
        (staged,) = root.glob(".*.mainstay")
        (root / "evil").write_text("evil")
        os.rename(root / "evil", staged)

    monkeypatch.setattr(files, "_check_unchanged", swap)
    with pytest.raises(PathRefused, match="was replaced by another process"):
        files.write_file("f", b"new")
    assert (root / "f").read_text() == "f of root"
    monkeypatch.setattr(atomic_write.StagedFile, "is_at", lambda self, status: True)
    files.write_file("f", b"new")
    assert (root / "f").read_text() == "evil"  # what the check prevents


def test_a_temporary_file_that_another_process_has_opened_is_not_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, opened = home / "root", []
    if not has_leases(root):
        pytest.skip("this file system has no leases")
    write = atomic_write._write_and_sync

    def intrude(file: int, data: bytes, old: os.stat_result | None, mode: int | None) -> None:
        write(file, data, old, mode)
        (staged,) = root.glob(".*.mainstay")
        opened.append(os.open(staged, os.O_WRONLY))

    monkeypatch.setattr(atomic_write, "_open_unnamed_file", lambda folder: None)
    monkeypatch.setattr(atomic_write, "_write_and_sync", intrude)
    monkeypatch.setattr(atomic_write, "LEASE_RETRY_S", 0)
    with pytest.raises(PathRefused, match="Another process opened the file"):
        confined(home).write_file("f", b"new")
    os.close(opened[0])
    assert (root / "f").read_text() == "f of root"
    assert list(root.glob(".*.mainstay")) == []


def test_writing_through_a_link_replaces_what_it_leads_to(home: Path) -> None:
    written = confined(home).write_file("in", b"through")
    assert written.path == str(home / "root" / "a" / "f")
    assert (home / "root" / "in").is_symlink()
    assert (home / "root" / "a" / "f").read_bytes() == b"through"


def test_a_name_that_would_be_taken_for_another_is_not_made(home: Path) -> None:
    files = confined(home)
    for name in ("a\\b", "x\n", "x.", "x ", "\uff0e\uff0e", "\u202ex", "new/ /y", "x\x1b[2J"):
        with pytest.raises(PathRefused, match="is not a valid name"):
            files.write_file(name, b"x")
    assert not (home / "root" / "new").exists()


def test_a_writer_that_expected_another_content_changes_nothing(home: Path) -> None:
    files = confined(home)
    mark = files.read_bytes("f", 100)[1].fingerprint
    (home / "root" / "f").write_text("theirs")
    with pytest.raises(PathRefused, match="another process"):
        files.write_file("f", b"ours", expected_fingerprint=mark)
    with pytest.raises(PathRefused, match="another process"):
        files.remove_file("f", expected_fingerprint=mark)
    with pytest.raises(PathRefused, match="another process"):
        files.write_file("f", b"ours", expected_fingerprint="")
    assert (home / "root" / "f").read_text() == "theirs"
    with pytest.raises(PathRefused, match="no longer resolves to the same file"):
        files.write_file("in", b"x", expected_path=str(home / "root" / "in"))


def test_a_cancelled_write_leaves_nothing_at_all(home: Path) -> None:
    files = confined(home)
    before = sorted(path for path, _, _ in os.walk(home / "root"))
    with pytest.raises(PathRefused, match="Cancelled"):
        files.write_file("deep/er/f", b"x", is_cancelled=lambda: True)
    with pytest.raises(PathRefused, match="Cancelled"):
        files.write_file("f", b"x", is_cancelled=lambda: True)
    assert sorted(path for path, _, _ in os.walk(home / "root")) == before
    assert not [name for name in os.listdir(home / "root") if name.endswith(".mainstay")]


def test_a_disk_that_takes_no_more_is_a_sentence_and_the_old_file_stays(home: Path) -> None:
    script = (
        "import resource, signal, sys\n"
        "from mainstay.core.tool_ports import SessionFolders\n"
        "from mainstay.io.confined_files import ConfinedFiles\n"
        "from mainstay.io.path_resolver import PathRefused\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    ConfinedFiles(SessionFolders(cwd=sys.argv[1], writable=(sys.argv[1],))).write_file('f', b'x' * 100_000)\n"
        "except PathRefused as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(home / "root")], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "f cannot be written: File too large."
    assert (home / "root" / "f").read_text() == "f of root"
    assert not [name for name in os.listdir(home / "root") if name.endswith(".mainstay")]


WRITER = """
import sys
from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.io import atomic_write
from mainstay.io.atomic_write import stage_locked_file
from mainstay.io.confined_files import ConfinedFiles
files = ConfinedFiles(SessionFolders(cwd=sys.argv[1], writable=(sys.argv[1],)))
sizes = (3_000_000, 1_000)
print("ready", flush=True)
for number in range(1_000_000):
    files.write_file("target", bytes([65 + number % 26]) * sizes[number % 2])
"""


def test_killed_at_any_moment_a_writer_leaves_the_old_file_or_the_new(home: Path) -> None:
    chance = random.Random(7)
    root = home / "root"
    for _ in range(60 if WHOLE else 8):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            _spin(chance.random() * 0.06)
            process.send_signal(signal.SIGKILL)
            process.wait()
        if (root / "target").exists():
            data = (root / "target").read_bytes()
            assert len(data) in (3_000_000, 1_000)
            assert data == data[:1] * len(data)


def _spin(seconds: float) -> None:
    """Until then, without giving the moment away to a timer's grain."""
    import time

    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_removing_stays_inside_and_takes_only_files(home: Path) -> None:
    files = confined(home)
    files.remove_file("out")  # the link, not what it leads to
    assert (home / "outside" / "secret").read_bytes() == SECRET
    with pytest.raises(PathRefused, match="folder"):
        files.remove_file("a")
    for target in ("../outside/secret", "abs_out/secret", "out_folder/secret"):
        with pytest.raises(PathRefused, match="outside"):
            files.remove_file(target)
    assert (home / "outside" / "secret").read_bytes() == SECRET
    assert files.remove_file("f") == str(home / "root" / "f")
    assert not (home / "root" / "f").exists()


# --- reading ---------------------------------------------------------------------------------------


def test_a_missing_file_is_reported_with_similar_names(home: Path) -> None:
    (home / "root" / "Settings.toml").write_text("")
    for wanted in ("settings.toml", "Setting.toml"):
        with pytest.raises(PathMissing, match=r"Near it: Settings\.toml") as missing:
            read(confined(home), wanted)
        assert missing.value.similar_paths == (str(home / "root" / "Settings.toml"),)


def test_a_file_over_the_bound_is_refused_with_its_size(home: Path) -> None:
    with open(home / "root" / "large", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(PathRefused, match="1073741824 bytes"):
        read(confined(home), "large")


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    before = _open_files()
    yield
    assert _open_files() <= before


def test_nothing_stays_open_after_a_thousand_refusals(home: Path) -> None:
    files = confined(home, protected=(str(home / "root" / "f"),))
    acts: list[Callable[[], object]] = [
        lambda: read(files, "f"),
        lambda: read(files, "loop"),
        lambda: read(files, "out_folder/secret"),
        lambda: read(files, "a/f/x/y"),
        lambda: files.write_file("a", b"x"),
        lambda: files.write_file("a/f/x", b"x"),
        lambda: files.remove_file("f"),
        lambda: files.list_folder("a/f"),
    ]
    before = _open_files()
    for number in range(1_000):
        with pytest.raises(PathRefused):
            acts[number % len(acts)]()
    assert _open_files() == before


# --- notes and folders of our own inside of what is protected ------------------------------------


def test_f53_a_note_may_be_written_by_its_own_path_and_nothing_beside_it(tmp_path: Path) -> None:
    """F53: the files that memory is made of are among the protected ones."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "secret.db").write_text("no")
    note = home / "MEMORY.md"
    grounds = SessionFolders(cwd=str(work), writable=(str(work),), protected=(str(home),), obeyed_paths=(str(note),))
    files = ConfinedFiles(grounds)
    assert files.write_file(str(note), b"remember").created
    assert files.read_bytes(str(note), 100)[0] == b"remember"
    for other in ("secret.db", ".", "MEMORY.md/../secret.db", "new.txt", "memory.md", "MEMORY.md.bak"):
        with pytest.raises(PathRefused):
            files.write_file(str(home / other), b"x")
        with pytest.raises(PathRefused):
            files.read_bytes(str(home / other), 100)
    with pytest.raises(PathRefused):
        files.list_folder(str(home))
    note.unlink()
    os.link(home / "secret.db", note)
    with pytest.raises(PathRefused):
        files.read_bytes(str(note), 100)
    note.unlink()
    note.symlink_to(home / "secret.db")
    with pytest.raises(PathRefused):
        files.read_bytes(str(note), 100)


def test_f53_an_own_folder_inside_a_protected_one_is_writable_and_only_it(tmp_path: Path) -> None:
    """F53: who works in the folder that holds the home still cannot get at the home."""
    home = tmp_path / ".mainstay"
    scratch = home / "workspaces" / "default" / "s" / "scratch"
    scratch.mkdir(parents=True)
    (home / "mainstay.yaml").write_text("model: x")
    grounds = SessionFolders(cwd=str(tmp_path), writable=(str(tmp_path), str(scratch)), protected=(str(home),))
    files = ConfinedFiles(grounds)
    assert files.write_file(str(scratch / "out.txt"), b"x").created
    assert files.write_file("ours.txt", b"x").created
    for other in (".mainstay/mainstay.yaml", ".MAINSTAY/mainstay.yaml", ".mainstay/new", ".mainstay/workspaces/x"):
        with pytest.raises(PathRefused):
            files.write_file(other, b"x")
