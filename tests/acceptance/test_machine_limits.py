"""A machine with too little memory, or without a usable temporary folder: real processes say what is wrong."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel
from support.served_command import repeat, set_up

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "--kill-child")
# The home is seen at another place, because the temporary folder is hidden; the current folder must not be writable.
UNUSABLE = """
set -e
mount --bind "$1" /mnt
for folder in /tmp /var/tmp; do mount -t tmpfs -o "$2" tmpfs $folder; done
[ "$2" = ro ] || for folder in /tmp /var/tmp; do head -c 1m /dev/zero > $folder/filler || true; done 2> /dev/null
cd /tmp
shift 2
exec env -u TMPDIR HOME=/mnt MAINSTAY_HOME=/mnt/home "$@"
"""


@pytest.fixture
def mainstay(tmp_path: Path) -> Iterator[Command]:
    model = ExampleModel(repeat)
    made = Command(tmp_path)
    made.env["KEY"] = "none"
    set_up(made, model, "tools: {builtin: [bash]}\n")
    yield made
    model.close()


@pytest.mark.skipif(sys.platform != "linux", reason="mounts in a namespace of its own")
@pytest.mark.parametrize("how", ["ro", "size=64k"], ids=["missing", "full"])
def test_without_a_usable_temporary_folder_a_command_names_the_folders_and_what_to_do(
    mainstay: Command, how: str
) -> None:
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False).returncode:
        pytest.skip("this machine allows no mount namespaces")
    if Path(sys.prefix).resolve().is_relative_to("/tmp") or Path(__file__).resolve().is_relative_to("/tmp"):
        pytest.skip("this checkout is in the temporary folder, which the test hides")
    shell = [*NAMESPACE, "sh", "-c", UNUSABLE, "sh", str(mainstay.folder), how]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*shell, *mainstay.argv(*arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=mainstay.env, timeout=120, check=False)

    refused = run("run", "hello", "--session", "s")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
    assert "no temporary file can be written in any of /tmp, /var/tmp" in refused.stderr
    assert "set TMPDIR to a folder that has some" in refused.stderr
    elsewhere = mainstay.folder / "elsewhere"
    elsewhere.mkdir()
    shell[shell.index(UNUSABLE)] = UNUSABLE.replace("-u TMPDIR", "TMPDIR=/mnt/elsewhere")
    answered = run("run", "hello", "--session", "s")
    assert (answered.returncode, answered.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_with_too_little_memory_a_command_says_so_in_a_line_and_what_was_stored_stays(mainstay: Command) -> None:
    assert mainstay("run", "before", "--session", "s").returncode == 0
    refused = 0
    for megabytes in (64, 120):
        ceiling = megabytes << 20
        done = subprocess.run(
            mainstay.argv("run", "hello", "--session", "s"),
            capture_output=True,
            text=True,
            env=mainstay.env,
            timeout=120,
            check=False,
            preexec_fn=lambda ceiling=ceiling: resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling)),
        )
        if done.returncode:
            refused += 1
            assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
            assert "memory" in done.stderr
    assert refused, "64 MB were enough"
    assert "before" in mainstay("session", "show", "s").stdout
