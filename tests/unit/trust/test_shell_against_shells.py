"""Scripts run in real shells with a PATH of programs that record their run: every run was predicted."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mainstay.trust.shell.analysis import ScriptAnalysis, analyse_script

SHELLS = [shell for shell in ("dash", "bash", "sh", "busybox") if shutil.which(shell)]
PROGRAMS = ("rm", "git", "curl", "ls", "cp", "tee", "sleep", "probe")
SCRIPTS = 1200 if os.environ.get("MAINSTAY_TEST_ALL") else 120

STUB = """#!{shell}
echo "${{0##*/}}" >> "${{LOG:-{log}}}"
"""


class World:
    """A folder with programs that note their own names, and nothing else on the PATH but what runs others."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, 0
        self.bin = folder / "bin"
        self.bin.mkdir()
        shell = shutil.which("dash") or "/bin/sh"
        for name in PROGRAMS:
            stub = self.bin / name
            stub.write_text(STUB.format(shell=shell, log=folder / "log"))
            stub.chmod(0o755)
        for name in ("env", "nice", "nohup", "timeout", "xargs", "sh", "bash", "dash", "find", "cat", "true", "echo"):
            if found := shutil.which(name):
                (self.bin / name).symlink_to(found)
        (self.folder / "work").mkdir()

    def run(self, shell: str, script: str) -> set[str]:
        self.runs += 1  # a log for each: what an earlier script left in the background may still be writing
        logs = self.folder / f"log{self.runs}", self.folder / "log"
        logs[1].unlink(missing_ok=True)
        command = [shutil.which(shell) or shell, *(["sh"] if shell == "busybox" else []), "-c", script]
        subprocess.run(
            command,
            cwd=self.folder / "work",
            env={"PATH": str(self.bin), "HOME": str(self.folder), "LOG": str(logs[0])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return {name for log in logs if log.exists() for name in log.read_text().split()}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("shells"))


def foreseen(found: ScriptAnalysis, ran: set[str]) -> bool:
    return bool(found.opaque_reasons) or ran <= {simple.program for simple in found.commands}


CORNERS = [
    "rm x",
    "ls;rm x",
    "ls&rm x",
    "ls|rm x",
    "ls\nrm x",
    "true && rm x",
    "false || rm x",
    "(rm x)",
    "{ rm x; }",
    "! rm x",
    "if rm x; then ls; fi",
    "while rm x; do break; done",
    "until false; do rm x; break; done",
    "for a in 1 2; do rm x; done",
    "for a in $(rm x); do ls; done",
    "case a in a) rm x;; esac",
    "case $(rm x) in *) ls;; esac",
    "case a in (b|a) rm x;; esac",
    "case a in\nb) ls;;\na) rm x\nesac",
    "f() { rm x; }; f",
    "f() ( rm x ); f",
    "f()\n{\nrm x\n}\nf",
    "git() { rm x; }; git status",
    "echo $(rm x)",
    "echo `rm x`",
    'echo "$(rm x)"',
    'echo "`rm x`"',
    'echo "a $(echo "b $(rm x)")"',
    "echo `echo \\`rm x\\``",
    "echo ${A:-$(rm x)}",
    'echo "${A:-`rm x`}"',
    "echo $(( 1 + $(rm x; echo 1) ))",
    "echo $((rm x);(ls))",
    "echo $( (rm x) )",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\n`rm x`\nEOF",
    "cat <<'EOF'\n$(git x)\nEOF\nrm x",
    "cat <<-EOF\n\t$(rm x)\n\tEOF",
    "cat <<A <<B\na\nA\n$(rm x)\nB",
    "cat <<EOF; rm x\nhello\nEOF",
    "cat <<EOF\nEO\\\nF\nEOF\nrm x\nEOF",
    "sh <<EOF\nrm x\nEOF",
    "sh -c 'rm x'",
    "sh -ec 'rm x'",
    "sh -c -e 'rm x'",
    "sh -c 'sh -c \"rm x\"'",
    "bash -c 'rm x'",
    "env rm x",
    "env - rm x",
    "env -u A B=c rm x",
    "env -i PATH=$PATH rm x",
    "nice -n 1 rm x",
    "nohup rm x",
    "timeout 5 rm x",
    "timeout -k 1 5 rm x",
    "echo x | xargs rm",
    "echo x | xargs -n 1 sh -c 'rm x'",
    "echo x | xargs -I{} sh -c 'rm {}'",
    "find . -exec rm {} +",
    "find . -maxdepth 0 -exec sh -c 'rm x' \\;",
    "exec rm x",
    "command rm x",
    "command -p rm x",
    "eval rm x",
    "eval 'ls; rm x'",
    'eval "ls;" rm x',
    'eval "$(echo rm x)"',
    "A=rm; $A x",
    "A='rm x'; eval $A",
    "A='rm x'; $A",
    "$(echo rm) x",
    'set -- rm x; "$@"',
    "IFS=_; A=rm_x; $A",
    "\\rm x",
    "r\\m x",
    "'rm' x",
    '"rm" x',
    "r''m x",
    "r\\\nm x",
    "ls \\\n; rm x",
    "ls # comment\nrm x",
    "ls #\\\nrm x",
    "ls a#b; rm x",
    "echo \\# ; rm x",
    "echo '#' ; rm x",
    "echo a\\\n#; rm x",
    "#\nrm x",
    "$'rm' x",
    "$'\\x72m' x",
    "echo $'\\' ; rm x #'",
    "echo '\\'; rm x; echo '\\'",
    "{rm,x}",
    "$'\\162m' x",
    "alias ls=rm\nls x",
    "alias ls='rm '\neval ls x",
    "trap 'rm x' EXIT",
    "A=1 rm x",
    "A=$(rm x)",
    "A=$(rm x) ls",
    "A=`rm x`",
    "> $(rm x)",
    "ls > $(rm x; echo f)",
    "ls 2>/dev/null >f <f; rm x",
    "ls 2>&1 | rm x",
    "ls &>/dev/null; rm x",
    "ls >&2; rm x",
    "ls <<<x; rm x",
    "ls <<< $(rm x)",
    "cat <(rm x)",
    "ls > >(rm x)",
    "[[ a && rm x ]]",
    "[[ a || rm x ]]",
    "[[ -n $(rm x) ]]",
    '[ -n "$(rm x)" ]',
    "((rm x))",
    "(( 1 + $(rm x) ))",
    "x='a[$(rm x)]'; echo $((x))",
    "let 'a[$(rm x)]=1'",
    "test -v 'a[$(rm x)]'",
    "a[$(rm x)]=1",
    "declare -a a=($(rm x))",
    "echo ${a[$(rm x)]}",
    "echo ${x@P}",
    "x='$(rm x)'; echo \"${x@P}\"",
    "time rm x",
    "time -p rm x",
    "coproc rm x",
    "function f { rm x; }; f",
    "select a in $(rm x); do break; done",
    "for ((i=0;i<1;i++)); do rm x; done",
    "if true; then :; elif true; then rm x; fi",
    "if false; then :; else rm x; fi",
    "true & rm x & wait",
    "ls |\nrm x",
    "ls &&\n\nrm x",
    "ls |& rm x",
    "ls;;rm x",
    ". ./nothing; rm x",
    "echo 'rm x' > f; . ./f",
    "echo 'rm x' | sh",
    "PATH=.:$PATH; ls; rm x",
    "\tls\t;\trm\tx",
    "ls\r\nrm x",
    "ls\x0brm x",
    'echo "${A-"$(rm x)"}"',
    "echo \"${A-'$(rm x)'}\"",
    "echo ${A-'$(ls)'}; rm x",
    "echo \"${A#'}'}\"; rm x",
    "echo \"${A-'}'; rm x; echo '}\"",
    "echo \"$(cat <<'EOF'\nit's\nEOF\n)\"; rm x",
    'echo "$(case a in a) rm x;; esac)"',
    "echo $(case a in (a) rm x;; esac)",
    "echo $(ls # )\n); rm x",
    "echo `ls # `; rm x",
    'echo "`echo \\"rm\\" | sh`"',
    "exec 3>&1; rm x >&3",
    "{ ls; } > f; rm x",
    "(ls) > f; rm x",
    "! { rm x; }",
    "if ! rm x; then :; fi",
    "{ rm x\n}",
    "do=1; rm x",
    "echo do; rm x",
    "echo if then; rm x; echo fi",
    "for do in 1; do rm x; done",
    "case in in in) rm x;; esac",
    "case a in a) ls;& b) rm x;; esac",
    "f () { ls; }; rm x",
    "ls() { :; }; rm x",
    "rm() { ls; }; rm x",
    "~/../bin/rm x",
    "./../bin/rm x",
    "$PWD/../bin/rm x",
    "../b?n/rm x",
    "../bin/r* x",
    "busybox rm x",
    "trap 'rm x' 0; exit",
    "command eval 'rm x'",
    "env sh -c 'rm x'",
    "env -S 'rm x'",
    "env -S'rm x'",
    "echo x|xargs env rm",
    "nice nohup timeout 5 env A=b rm x",
    "printf 'rm x' | sh -s",
    "sh -s <<EOF\nrm x\nEOF",
    "read a <<EOF\nrm\nEOF\n$a x",
    "while read a; do $a x; done <<EOF\nrm\nEOF",
    "ls &>f rm x",
    "a[ # $(rm )x)]=1",
    "[[ a ||\nls\nrm x ]]",
    "$\\\n'\\x72m' x",
    "$\\\n(rm x)",
    "cat <\\\n<E\n$(rm x)\nE",
    "a=(b)#c rm x",
    "env =c rm x",
    "timeout 52>&1 rm x",
    "echo ${A:-<(rm x)}",
    "t\\\ni=1 rm x",
    "ls {a}>f; rm x",
    "[[ a ||2>&1 rm x ]]",
    "time \\\n-p rm x",
    "ls >&'$(rm x)'",
    "ls 2>&1-'$(rm x)'",
    "ls &>f 2>&1 rm x",
]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_program_that_a_shell_ran_was_predicted_for_the_whole_grammar(world: World, shell: str) -> None:
    missed = [script for script in CORNERS if not foreseen(analyse_script(script), world.run(shell, script))]
    assert missed == []


def test_the_corners_do_run_something(world: World) -> None:
    """Otherwise the test above could not fail."""
    ran = [script for script in CORNERS if "rm" in world.run(SHELLS[0], script)]
    assert len(ran) > len(CORNERS) // 2
    assert not foreseen(ScriptAnalysis(), {"rm"})


# --- generated -----------------------------------------------------------------------------------


def generated(random: random.Random, depth: int) -> str:
    """A script out of everything that can hold another."""
    leaf = random.choice(PROGRAMS) + random.choice(["", " x", " -f 'a b'", ' "c d"', " >f", " 2>&1", " $A", " {}"])
    if depth <= 0:
        return leaf
    one: Callable[[], str] = lambda: generated(random, depth - 1)  # noqa: E731
    quoted = one().replace("'", "'\\''")
    forms: list[Callable[[], str]] = [
        lambda: f"{one()}; {one()}",
        lambda: f"{one()} && {one()}",
        lambda: f"{one()} || {one()}",
        lambda: f"{one()} | {one()}",
        lambda: f"{one()}\n{one()}",
        lambda: f"( {one()} )",
        lambda: f"{{ {one()}\n}}",
        lambda: f"echo $( {one()} )",
        lambda: f'echo "a $( {one()} ) b"',
        lambda: f"echo ${{Q:-$( {one()} )}}",
        lambda: f"if {one()}\nthen {one()}\nelse {one()}\nfi",
        lambda: f"for q in 1; do {one()}\ndone",
        lambda: f"case a in a) {one()}\n;; esac",
        lambda: f"q() {{ {one()}\n}}\nq",
        lambda: f"sh -c '{quoted}'",
        lambda: f"eval '{quoted}'",
        lambda: f"env A=b sh -c '{quoted}'",
        lambda: f"cat <<E{depth}\n$( {one()} )\nE{depth}\n",
        lambda: f"sh <<'E{depth}'\n{one()}\nE{depth}\n",
        lambda: f"A=$( {one()} )",
        lambda: f"nice {leaf}",
        lambda: f"! {one()}",
        lambda: f"while {one()}\ndo break\ndone",
        lambda: f"echo `{leaf}`",
        lambda: f"echo # {leaf}\n{one()}",
        lambda: f"\\{leaf}",
        lambda: f"'{leaf.split()[0]}' x",
    ]
    return random.choice(forms)()


@pytest.mark.parametrize("shell", SHELLS[:2])
def test_every_program_that_a_shell_ran_of_a_generated_script_was_predicted(world: World, shell: str) -> None:
    chance = random.Random(4)
    clear = 0
    for _ in range(SCRIPTS):
        script = generated(chance, chance.randint(1, 4))
        found = analyse_script(script)
        assert foreseen(found, world.run(shell, script)), script
        clear += not found.opaque_reasons
    assert clear > SCRIPTS // 2, "a script that is called opaque proves nothing"
