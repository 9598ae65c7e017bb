"""Commands without a sandbox: those that provably only read inside of the session's folders run unasked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.policy_world import BASH, BOXED, HOST, PolicyContext, judged

from mainstay.core.tool_ports import SessionFolders
from mainstay.tools.read_access import SessionReadAccess
from mainstay.trust.policy import SandboxGuarantees
from mainstay.trust.rules import PolicyRules
from mainstay.trust.shell.analysis import analyse_script
from mainstay.trust.shell.reading import reads_only

# What agents run to look around in a project.
ORDINARY_READING = r"""
ls
ls -la
ls -la src
ls -lah src tests
ls *.md
ls src/*.py
ls -R src
ls -lt | head -20
pwd
pwd && ls -la
tree
tree -L 2
tree -L 3 -I node_modules
cat README.md
cat src/app.py
cat src/app.py | head -50
cat -n src/app.py
cat package.json | jq '.scripts'
cat README.md src/app.py
cat *.md
head -20 README.md
head -n 100 src/app.py
tail -50 logs/app.log
tail -n +40 src/app.py | head -20
wc -l src/app.py
wc -l src/*.py
wc -l src/*.py | sort -n | tail -5
nl -ba src/app.py
sed -n '1,80p' src/app.py
sed -n 10,20p README.md
sed -n '/def main/,/return/p' src/app.py
awk 'NR>=10 && NR<=20' src/app.py
awk '{print $1}' logs/app.log | sort | uniq -c | sort -rn | head
awk -F: '{print $2}' README.md
cut -d, -f1 data.csv | sort -u
grep -rn TODO .
grep -rn "TODO" src tests
grep -n "def " src/app.py
grep -rn "import os" --include='*.py' .
grep -rl "main" src
grep -rn "/api/users" src
grep -c "" README.md
grep -v '^#' README.md | head -5
grep -E 'a|b' README.md
grep -A3 -B3 "main" src/app.py
grep -i license README.md || echo none
rg TODO
rg -n "def main" src
rg -l import --type py
rg "class \w+" -g '*.py' | head -40
find . -name '*.py'
find . -type f -name '*.py' | head -50
find . -type f | wc -l
find src -maxdepth 2 -type d
find . -name '*.md' -not -path './node_modules/*'
find . -type f -size +1M
find . -newer README.md -type f
fd -e py
du -sh .
du -sh src tests
du -sh * | sort -h
df -h
stat README.md
file README.md
file src/*
diff README.md NOTES.md
diff -u src/app.py src/old.py
cmp README.md NOTES.md
md5sum README.md
sha256sum src/app.py
which python3
which node npm
command -v git
type python3
echo hello
echo "$HOME"
date
date +%Y-%m-%d
whoami
uname -a
id
nproc
env | sort
printenv PATH
basename src/app.py
dirname src/app.py
realpath src
readlink -f src/app.py
test -f README.md && echo yes
[ -d src ] && ls src
test -d node_modules || echo missing
cd src && ls -la
cd src && grep -n main app.py
cd src; wc -l app.py
ls -la && cat README.md
ls src 2>/dev/null
cat missing.txt 2>/dev/null || true
set -e; ls; cat README.md
sort data.csv
sort -t, -k2 -n data.csv | head
uniq data.csv
column -t -s, data.csv
tr a-z A-Z < README.md
wc -w < README.md
jq . package.json
jq -r '.name' package.json
jq '.dependencies | keys' package.json
xxd README.md | head
od -c README.md | head -3
strings README.md | head
base64 README.md
seq 1 5
git status
git status --short
git status -sb
git log --oneline
git log --oneline -20
git log -5 --stat
git log -p -1
git log --graph --oneline --all | head -30
git diff
git diff HEAD
git diff --stat
git diff README.md
git diff --cached
git show
git show HEAD:README.md
git show --stat HEAD
git branch
git branch -a
git branch --show-current
git remote -v
git rev-parse HEAD
git rev-parse --abbrev-ref HEAD
git ls-files
git ls-files | wc -l
git blame README.md
git tag
git stash list
git grep main
git describe --always
cd src && git status
timeout 10 grep -rn main src
for f in *.md; do echo "$f"; done
for f in src/*.py; do wc -l "$f"; done
find . -name '*.py' | xargs wc -l
find . -name '*.py' -exec wc -l {} +
grep -rl main src | xargs cat
git diff $(git merge-base HEAD HEAD~1)
cat "$(ls *.md | head -1)"
less README.md
ps aux
cat /etc/os-release
ls ~
ls /usr/lib
python3 --version
node -v
git config --get user.name
""".strip().splitlines()

# Each of them reads elsewhere, writes, runs something or hides what it does.
MUST_ASK = r"""
cat /etc/passwd
cat ../secret.txt
cat ~/.ssh/id_ed25519
cat out
cat out*
cat *
head src/../../secret.txt
grep -r x /etc
grep -R x .
grep -f/etc/passwd README.md
grep -fout README.md
grep -e x /etc/passwd
grep --file=/etc/passwd README.md
grep x ~/.netrc
cat {/etc/passwd,README.md}
cat $HOME/.netrc
cat "$FILE"
cat < /etc/passwd
cat < out
cat <(cat /etc/passwd)
echo $(cat /etc/passwd)
echo `cat ../secret.txt`
x=$(cat /etc/passwd); echo "$x"
echo x > new.txt
echo x >> README.md
: > README.md
cp README.md /tmp/x
tee copy < README.md
sort -o README.md README.md
sort --output=README.md README.md
sort --files0-from=list
wc --files0-from=list
uniq README.md NOTES.md
shuf -o README.md NOTES.md
tree -o listing
xxd README.md copy
iconv -o copy README.md
md5sum -c list
file -f list
date -f /etc/passwd
date -s 2020-01-01
find . -delete
find . -exec rm {} +
find . -exec cat {} +
find -L . -name x
find . -fprint list
find / -name x
fd . -x rm
rg --pre=sh x
rg -L x
rg x /etc
ag -f x
ls -LR
ls /root
du -L
diff -r src tests
diff src tests
sed -i s/a/b/ README.md
sed -n 'w copy' README.md
sed 's/x/y/e' README.md
sed 'r /etc/passwd' README.md
awk 'BEGIN{system("ls")}'
awk 'BEGIN{ARGV[1]="/etc/passwd"; ARGC=2} {print}'
awk '{print > "copy"}' README.md
awk 'BEGIN{while((getline l < "/etc/passwd")>0) print l}'
jq 'import "/etc/x" as $x; .' package.json
strings @list
cd / && ls
cd .. && ls
cd out && ls
cd src && cd .. && cat ../secret.txt
cd "$DIR" && ls
xargs cat
echo /etc/passwd | xargs cat
xargs -a list echo
env cat /etc/passwd
bash -c 'cat /etc/passwd'
bash script.sh
./script.sh
python3 -c 'print(1)'
node app.js
make
curl https://example.com
ssh host ls
PATH=. ls
alias ls=rm; ls
eval "$X"
cat protected.env
cat sub/protected.env
ls out/
cat pipe
git status; rm -rf .
git -C /etc log
git -c core.fsmonitor=./x status
git diff --output=copy
git log --output copy
git diff --no-index /etc/passwd README.md
git log --format=%G?
git log --show-signature
git show --textconv HEAD
git grep -Oless x
git branch -D main
git branch new
git tag new
git remote add x y
git remote show origin
git stash
git stash drop
git config --list
git fetch
git commit -m x
git x
less -o copy README.md
history -w copy
flock lock ls
kill 1
nohup ls
exec ls
watch ls
""".strip().splitlines()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = Path(os.path.realpath(tmp_path_factory.mktemp("reading")))
    (top / "secret.txt").write_text("secret")
    (root := top / "work").mkdir()
    for name in ("README.md", "NOTES.md", "src/app.py", "src/old.py", "tests/t.py", "logs/app.log", "data.csv"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("main\n")
    (root / "package.json").write_text('{"name": "x", "scripts": {}, "dependencies": {}}')
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def access(root: Path, *protected: str) -> PolicyContext:
    folders = SessionFolders(
        cwd=str(root), writable=(str(root),), protected=tuple(f"{root}/{name}" for name in protected)
    )
    return PolicyContext(cwd=str(root), read_access=lambda: SessionReadAccess(folders))


async def decide(command: str, circumstances: PolicyContext, confinement: SandboxGuarantees = HOST) -> str:
    return (await judged(BASH, {"command": command}, None, circumstances, confinement)).decision


async def test_most_ordinary_commands_that_read_run_unasked(project: Path) -> None:
    """The figure is in docs/how-to/built-in-tools.md."""
    circumstances = access(project)
    asked = [one for one in ORDINARY_READING if await decide(one, circumstances) != "allow"]
    unasked = len(ORDINARY_READING) - len(asked)
    assert (unasked, len(ORDINARY_READING)) == (144, 158), asked


async def test_under_taint_they_still_run_unasked(project: Path) -> None:
    circumstances = access(project)
    tainted = PolicyContext(cwd=circumstances.cwd, read_access=circumstances.read_access, tainted=True)
    for command in ("ls -la", "cat README.md", "grep -rn TODO ."):
        assert await decide(command, tainted) == "allow", command


@pytest.fixture(scope="module")
def trapped(project: Path) -> Path:
    """The same project with what a command must not be led to."""
    root = project.parent / "trapped"
    subprocess.run(["cp", "-r", project, root], check=True)
    (root / "out").symlink_to(root.parent)
    (root / "out.txt").symlink_to(root.parent / "secret.txt")
    (root / "sub").mkdir()
    for name in ("protected.env", "sub/protected.env", "list", "script.sh"):
        (root / name).write_text("x")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize("command", MUST_ASK)
async def test_what_may_do_more_is_asked(trapped: Path, command: str) -> None:
    assert await decide(command, access(trapped, "protected.env", "sub/protected.env")) == "ask"


async def test_a_protected_file_ends_the_proof_for_whatever_reads_its_folder(trapped: Path) -> None:
    circumstances = access(trapped, "sub/protected.env")
    for command in ("grep -rn x .", "rg x", "git diff", "cat sub/*"):
        assert await decide(command, circumstances) == "ask", command
    for command in ("ls -la sub", "grep -rn x src", "cat README.md"):
        assert await decide(command, circumstances) == "allow", command


@pytest.mark.parametrize(
    "planted",
    [
        *(("config", "[core]\n\tfsmonitor = ./x\n"), ("config", "[include]\n\tpath = ../x\n"), ("commondir", "../x")),
        *(("config", '[filter "x"]\n\tclean = ./x\n'), ("config", "[core]\n\thooksPath = x\n")),
        *(("config", "[diff]\n\texternal = ./x\n"), ("hooks/post-index-change", "x"), ("config", "[core] pager = x\n")),
        *(("objects/info/alternates", "/x"), ("config", "[remote \"o\"]\n\turl = x \\\n\tfsmonitor = y\n")),
    ],
)  # fmt: skip
async def test_git_is_asked_where_the_repository_makes_it_run_programs(
    project: Path, tmp_path: Path, planted: tuple[str, str]
) -> None:
    root = Path(os.path.realpath(tmp_path)) / "clone"
    subprocess.run(["cp", "-r", project, root], check=True)
    assert await decide("git status", access(root)) == "allow"
    (root / ".git" / planted[0]).parent.mkdir(exist_ok=True)
    with open(root / ".git" / planted[0], "a") as file:
        file.write(planted[1])
    assert await decide("git status", access(root)) == "ask"


async def test_rules_come_first_and_a_tool_of_ones_own_proves_nothing(project: Path) -> None:
    circumstances = access(project)
    assert (await judged(BASH, {"command": "ls"}, PolicyRules(ask=("bash",)), circumstances, HOST)).decision == "ask"
    assert (await judged(BASH, {"command": "ls"}, PolicyRules(deny=("bash",)), circumstances, HOST)).decision == "deny"
    assert (await judged(BASH, {"command": "ls"}, None, PolicyContext(cwd=str(project)), HOST)).decision == "ask"
    assert await decide("python3 x.py", circumstances, BOXED) == "allow"


@pytest.mark.parametrize(
    "script", ["uniq a b", "tree -o x", "shuf -o x y", "history -w x", "git status", "echo > x", "rm x", "make"]
)
def test_what_may_write_is_no_reading_for_the_overlay_either(script: str) -> None:
    assert not reads_only(analyse_script(script))
    assert reads_only(analyse_script("ls -la | grep x; cat a b"))
