"""Coding and git with the built-in tools."""

# ruff: noqa: E501

from __future__ import annotations

from builtin_chat import BuiltinBook, bash, edit, fetch, grep, read, write
from herbarium import FILES_LOG
from script import Script, call

BOOK = BuiltinBook("code")


@BOOK.task("what does this project do", done=lambda rig: rig.saw("Herbarium"), kind="read")
def what() -> Script:
    yield call("ls", path=".")
    yield read("README.md")
    yield read("herbarium/cli.py")


@BOOK.task("run the tests", done=lambda rig: rig.saw("OK"), kind="read")
def run_tests() -> Script:
    yield bash("python3 -m unittest -v 2>&1")


@BOOK.task("where is average_height used?", done=lambda rig: rig.saw("cli.py"), kind="read")
def where() -> Script:
    yield grep("average_height")


@BOOK.task("wie viele zeilen code sind das", done=lambda rig: rig.saw("total"), kind="read")
def lines() -> Script:
    yield bash("find . -name '*.py' -not -path './.git/*' | xargs wc -l")


@BOOK.task(
    "average_height crashes on an empty list, return 0 then",
    done=lambda rig: "if not plants" in rig.text("herbarium/store.py"),
)
def empty_list() -> Script:
    yield read("herbarium/store.py")
    yield edit("herbarium/store.py", "    return sum(", "    if not plants:\n        return 0\n    return sum(")
    yield bash("python3 -m unittest 2>&1")


@BOOK.task("and add a test for that", done=lambda rig: "test_empty" in rig.text("tests/test_store.py"))
def add_test() -> Script:
    yield read("tests/test_store.py")
    yield edit(
        "tests/test_store.py",
        '\n\nif __name__ == "__main__":',
        "\n\n    def test_empty(self):\n        self.assertEqual(by_family([], 'x'), [])\n\n\nif __name__ == \"__main__\":",
    )
    yield bash("python3 -m unittest 2>&1 | tail -3")


@BOOK.task("use argparse in the cli like the todo says", done=lambda rig: "argparse" in rig.text("herbarium/cli.py"))
def argparse() -> Script:
    yield read("herbarium/cli.py")
    yield edit("herbarium/cli.py", "import sys\n", "import argparse\n")
    yield edit("herbarium/cli.py", "# TODO: use argparse\n", "")
    yield edit(
        "herbarium/cli.py",
        "    plants = load(sys.argv[1])\n    if len(sys.argv) > 2:\n        plants = by_family(plants, sys.argv[2])\n",
        "    parser = argparse.ArgumentParser()\n    parser.add_argument('file')\n    parser.add_argument('family', nargs='?')\n"
        "    options = parser.parse_args()\n    plants = load(options.file)\n    if options.family:\n"
        "        plants = by_family(plants, options.family)\n",
    )
    yield bash("python3 -m herbarium.cli data/plants.csv Rosaceae")


@BOOK.task(
    "rename by_family to in_family everywhere",
    done=lambda rig: (
        "by_family"
        not in rig.text("herbarium/store.py") + rig.text("herbarium/cli.py") + rig.text("tests/test_store.py")
    ),
)
def rename_function() -> Script:
    yield grep("by_family")
    yield bash("grep -rl by_family herbarium tests | xargs sed -i 's/by_family/in_family/g'")
    yield bash("python3 -m unittest 2>&1 | tail -2")


@BOOK.task(
    "commit everything with a sensible message",
    done=lambda rig: "loc" in rig.git("log", "-1", "--format=%s") and not rig.git("status", "--short"),
    files={"herbarium/locale.py": "LANGUAGES = ['en']\n"},
)
def commit() -> Script:
    yield bash("git status --short && git diff")
    yield read("herbarium/locale.py")
    yield bash("git add -A && git commit -m 'Add locales'")


@BOOK.task("whats changed since yesterday?", done=lambda rig: rig.saw("Load plants"), kind="read")
def log() -> Script:
    yield bash("git log --oneline --stat -5")


@BOOK.task(
    "make a branch feature/export and switch to it",
    done=lambda rig: "feature/export" in rig.git("branch", "--show-current"),
)
def branch() -> Script:
    yield bash("git status -sb")
    yield bash("git switch -c feature/export")


@BOOK.task("delete the branch old-experiment", done=lambda rig: "old-experiment" not in rig.git("branch"))
def delete_branch() -> Script:
    yield bash("git branch -a")
    yield bash("git branch -D old-experiment")


@BOOK.task(
    "undo my change in config.json",
    done=lambda rig: '"debug": true' in rig.text("config.json"),
    files={"config.json": "{broken"},
)
def restore() -> Script:
    yield bash("git diff config.json")
    yield bash("git checkout -- config.json")


@BOOK.task("tag this as v0.1", done=lambda rig: "v0.1" in rig.git("tag"))
def tag() -> Script:
    yield bash("git log -1 --oneline")
    yield bash("git tag v0.1")


@BOOK.task("stash my changes pls", done=lambda rig: bool(rig.git("stash", "list")), files={"README.md": "# wip\n"})
def stash() -> Script:
    yield bash("git status --short")
    yield bash("git stash")


@BOOK.task("fix the typo in the usage doc", done=lambda rig: "address" in rig.text("docs/usage.md"))
def typo() -> Script:
    yield read("docs/usage.md")
    yield edit("docs/usage.md", "adress", "address")


@BOOK.task("delete docs/old-api.md, we dont need it anymore", done=lambda rig: not rig.has("docs/old-api.md"))
def remove_doc() -> Script:
    yield grep("old-api")
    yield bash("git rm -q docs/old-api.md")


@BOOK.task("add type hints to store.py", done=lambda rig: "-> float" in rig.text("herbarium/store.py"))
def hints() -> Script:
    yield read("herbarium/store.py")
    yield edit("herbarium/store.py", "def average_height(plants):", "def average_height(plants: list) -> float:")
    yield edit("herbarium/store.py", "def load(path):", "def load(path: str) -> list:")
    yield bash("python3 -m unittest 2>&1 | tail -1")


@BOOK.task("write a Makefile with test and run", done=lambda rig: "unittest" in rig.text("Makefile"))
def makefile() -> Script:
    yield read("README.md")
    yield write("Makefile", "test:\n\tpython3 -m unittest\n\nrun:\n\tpython3 -m herbarium.cli data/plants.csv\n")
    yield bash("make -n test")


@BOOK.task("setz debug in config.json auf false", done=lambda rig: '"debug": false' in rig.text("config.json"))
def debug_off() -> Script:
    yield read("config.json")
    yield edit("config.json", '"debug": true', '"debug": false')


@BOOK.task(
    "herb-api 2.4 renamed a key, see <site>/release.txt. adapt config.json if we use it",
    done=lambda rig: rig.saw("max_items"),
)
def adapt() -> Script:
    yield fetch("<site>/release.txt")
    yield read("config.json")
    yield bash("grep -rn limit --include=*.py --include=*.json . || true")


@BOOK.task(
    "read <site>/guide.html and follow its link about families, put the number of species into docs/families.md",
    done=lambda rig: "4828" in rig.text("docs/families.md"),
)
def families() -> Script:
    yield fetch("<site>/guide.html")
    yield fetch("<site>/families.html")
    yield write("docs/families.md", "Rosaceae 4828, Pinaceae 220, Asteraceae 32000\n")


@BOOK.task(
    "implement an export to json: herbarium/export.py with a function and a test",
    done=lambda rig: rig.has("herbarium/export.py") and rig.saw("OK"),
)
def export() -> Script:
    yield read("herbarium/store.py")
    yield write("herbarium/export.py", "import json\n\n\ndef to_json(plants):\n    return json.dumps(plants)\n")
    yield write(
        "tests/test_export.py",
        "import unittest\n\nfrom herbarium.export import to_json\n\n\nclass ExportTest(unittest.TestCase):\n"
        "    def test_empty(self):\n        self.assertEqual(to_json([]), '[]')\n",
    )
    yield bash("python3 -m unittest 2>&1")


@BOOK.task(
    "why does this fail? python -m herbarium.cli data/plants.csv Fagaceae",
    done=lambda rig: rig.saw("ZeroDivisionError"),
    kind="read",
)
def why() -> Script:
    yield bash("python3 -m herbarium.cli data/plants.csv Fagaceae 2>&1")
    yield read("herbarium/store.py")


@BOOK.task("split the tests into two files", done=lambda rig: rig.has("tests/test_average.py"))
def split() -> Script:
    yield read("tests/test_store.py")
    yield write("tests/test_average.py", "import unittest\n")
    yield bash("python3 -m unittest 2>&1 | tail -1")


@BOOK.task(
    "move herbarium/ to src/herbarium/ with git",
    done=lambda rig: rig.has("src/herbarium/store.py") and not rig.has("herbarium/store.py"),
)
def move_package() -> Script:
    yield bash("git ls-files")
    yield bash("mkdir -p src && git mv herbarium src/herbarium")
    yield bash("PYTHONPATH=src python3 -m unittest 2>&1 | tail -1")


@BOOK.task("who wrote the csv loading and when", done=lambda rig: rig.saw("Theo Lindqvist"), kind="read")
def blame() -> Script:
    yield bash("git blame -L1,8 herbarium/store.py")


@BOOK.task(
    "amend the last commit message: 'Add tests, docs and config'",
    done=lambda rig: "config" in rig.git("log", "-1", "--format=%s"),
)
def amend() -> Script:
    yield bash("git log -1")
    yield bash("git commit --amend -m 'Add tests, docs and config'")


@BOOK.task(
    "add *.log and build/ to the gitignore", done=lambda rig: "build/" in rig.text(".gitignore"), files=FILES_LOG
)
def ignore() -> Script:
    yield read(".gitignore")
    yield write(".gitignore", "__pycache__/\n*.log\nbuild/\n")
    yield bash("git status --short")


@BOOK.task(
    "merge the last two commits into one", done=lambda rig: rig.git("rev-list", "--count", "HEAD").strip() == "2"
)
def squash() -> Script:
    yield bash("git log --oneline")
    yield bash("git reset --soft HEAD~2 && git commit -m 'Add the command line, tests and documents'")


@BOOK.task("explain cli.py", "ok now make it print 'no plants' if there are none", "test it with Fagaceae",
           done=lambda rig: rig.saw("no plants"))  # fmt: skip
def cli_turns() -> Script:
    yield read("herbarium/cli.py")
    yield "It loads plants and prints their average height."
    yield edit(
        "herbarium/cli.py",
        "    print(len(plants)",
        "    if not plants:\n        print('no plants')\n        return\n    print(len(plants)",
    )
    yield "Done."
    yield bash("python3 -m herbarium.cli data/plants.csv Fagaceae")


@BOOK.task("check the syntax of all python files and the shell script", done=lambda rig: rig.saw("fine"), kind="read")
def syntax() -> Script:
    yield bash("python3 -m compileall -q herbarium tests && sh -n scripts/backup.sh && echo fine")


@BOOK.task(
    "make backup.sh executable and let it stop on errors", done=lambda rig: "set -e" in rig.text("scripts/backup.sh")
)
def backup() -> Script:
    yield read("scripts/backup.sh")
    yield edit("scripts/backup.sh", "#!/bin/sh\n", "#!/bin/sh\nset -e\n")
    yield bash("chmod +x scripts/backup.sh && ls -l scripts")
