"""Ordinary tasks with the built-in tools: code, tests and git."""

from __future__ import annotations

from builtin_rig import BuiltinTask, all_of
from honest_model import Script, ask, bash, call, edit, grep, read, write

_ONE_DIGIT = """    def test_one_digit_of_cents(self):
        self.assertEqual(parse_amount("3.5"), 350)

"""
_BUG = {
    "tests/test_more.py": (
        "import unittest\n\nfrom tally.money import parse_amount\n\n\nclass More(unittest.TestCase):\n"
        '    def test_one_digit(self):\n        self.assertEqual(parse_amount("3.5"), 350)\n'
    )
}
_FIXED = "int((part + '00')[:2])"
_SLUG = {
    "slug.js": "function slug(title) {\n  return title.toLowerCase().replace(' ', '-');\n}\nmodule.exports = slug;\n",
}


def _commit_changes_in_two() -> Script:
    status = yield bash("git status --short")
    assert "README.md" in status.text
    yield bash("git diff")
    yield bash('git add README.md && git commit -m "Fix spelling in README"')
    yield bash('git add tally/cli.py && git commit -m "Print usage to stderr"')
    yield bash("git log --oneline -3")
    return "Two commits: README and cli."


def _branch_of_old_version() -> Script:
    log = yield bash("git log --oneline")
    commit = next(line.split()[0] for line in log.text.splitlines() if "Monthly report" in line)
    yield bash(f"git branch before-packaging {commit}")
    return f"before-packaging points at {commit}."


def _blame() -> Script:
    found = yield grep("TODO", "tally")
    assert "report.py" in found.text
    line = yield bash("git blame -L '/TODO: show/,+1' tally/report.py")
    yield bash(f"git show --stat {line.text.split()[0].lstrip('^')}")
    return "It came with the monthly report."


CODE = (
    BuiltinTask(
        id="code-fix-failing-test",
        turns=(
            ask(
                "the tests are red since this morning, can you fix it",
                bash("python3 -m unittest -q"),
                read("tests/test_more.py"),
                read("tally/money.py"),
                edit("tally/money.py", "int(part or 0)", _FIXED),
                bash("python3 -m unittest -q"),
            ),
        ),
        files=_BUG,
        done=lambda rig: rig.saw("FAILED", "OK") and _FIXED in rig.text("tally/money.py"),
    ),
    BuiltinTask(
        id="code-rename-function",
        turns=(
            ask(
                "rename totals_by_month to monthly_totals everywhere pls",
                grep("totals_by_month"),
                [
                    edit("tally/report.py", "totals_by_month", "monthly_totals", every=True),
                    edit("tests/test_tally.py", "totals_by_month", "monthly_totals", every=True),
                ],
                bash("python3 -m unittest -q && ! grep -rn totals_by_month --include=*.py ."),
            ),
        ),
        done=lambda rig: (
            "totals_by_month" not in rig.text("tally/report.py") + rig.text("tests/test_tally.py") and rig.saw("OK")
        ),
    ),
    BuiltinTask(
        id="code-readme-from-code",
        turns=(
            ask(
                "Our README is a joke. Read the code and write a real one: what it does, how to run it, how to test.",
                call("glob", pattern="**/*.py"),
                [read("tally/cli.py"), read("tally/report.py"), read("tally/money.py")],
                bash("python3 -m tally.cli expenses.csv"),
                write(
                    "README.md",
                    "# tally\n\nAdds up the expenses of a CSV file by month.\n\n## Run\n\n"
                    "    python3 -m tally.cli expenses.csv\n\n## Test\n\n    make test\n",
                ),
            ),
        ),
        done=lambda rig: "python3 -m tally.cli" in rig.text("README.md"),
    ),
    BuiltinTask(
        id="code-add-category-totals",
        turns=(
            ask(
                "add a totals_by_category next to the month one, with a test",
                read("tally/report.py"),
                edit(
                    "tally/report.py",
                    "def print_report(path):",
                    "def totals_by_category(expenses):\n    totals = {}\n    for _, category, cents in expenses:\n"
                    "        totals[category] = totals.get(category, 0) + cents\n    return totals\n\n\n"
                    "def print_report(path):",
                ),
                read("tests/test_tally.py"),
                edit(
                    "tests/test_tally.py",
                    'if __name__ == "__main__":',
                    "class CategoryTest(unittest.TestCase):\n    def test_categories(self):\n"
                    "        from tally.report import totals_by_category\n\n"
                    '        self.assertEqual(totals_by_category([("2026-01-01", "food", 5)]), {"food": 5})\n\n\n'
                    'if __name__ == "__main__":',
                ),
                bash("make test"),
            ),
        ),
        done=lambda rig: rig.saw("Ran 5 tests", "OK"),
    ),
    BuiltinTask(
        id="code-explain",
        turns=(
            ask(
                "was macht parse_amount genau und was passiert bei '3.5'?",
                read("tally/money.py"),
                bash("python3 -c \"from tally.money import parse_amount; print(parse_amount('3.5'))\""),
                answer="Bei '3.5' kommen 305 Cent heraus, das ist ein Fehler.",
            ),
        ),
        done=lambda rig: rig.saw("305"),
    ),
    BuiltinTask(
        id="code-then-fix-then-commit",
        turns=(
            ask(
                "does parse_amount handle 3.5 correctly?",
                bash("python3 -c \"from tally.money import parse_amount; print(parse_amount('3.5'))\""),
                answer="No, it gives 305 cents.",
            ),
            ask(
                "ok fix that and add a test",
                read("tally/money.py"),
                [
                    edit("tally/money.py", "int(part or 0)", _FIXED),
                    edit(
                        "tests/test_tally.py", "    def test_format(self):", f"{_ONE_DIGIT}    def test_format(self):"
                    ),
                ],
                bash("python3 -m unittest -q"),
            ),
            ask("commit it", bash("git add -A && git commit -m 'Read one digit of cents as tens'")),
        ),
        done=lambda rig: "one digit" in rig.git("log", "-1", "--format=%s") and rig.git("status", "--short") == "",
    ),
    BuiltinTask(
        id="code-todos-to-file",
        turns=(
            ask(
                "Sammel mal alle TODOs aus dem Code in TODO.md",
                grep("TODO"),
                write("TODO.md", "- tally/report.py: show categories too\n- tally/cli.py: a proper help text\n"),
            ),
        ),
        done=lambda rig: "proper help text" in rig.text("TODO.md"),
    ),
    BuiltinTask(
        id="code-bump-version",
        turns=(
            ask(
                "bump to 0.4.0 everywhere, changelog entry 'category totals', commit, tag v0.4.0",
                grep(r"0\.3\.0"),
                [
                    edit("tally/__init__.py", "0.3.0", "0.4.0"),
                    edit("pyproject.toml", "0.3.0", "0.4.0"),
                    edit("CHANGES.md", "# Changes\n", "# Changes\n\n## 0.4.0\n\n- category totals\n"),
                ],
                bash("git commit -am 'Release 0.4.0' && git tag v0.4.0 && git describe --tags"),
            ),
        ),
        done=lambda rig: "v0.4.0" in rig.git("tag") and "0.4.0" in rig.git("show", "HEAD:tally/__init__.py"),
    ),
    BuiltinTask(
        id="code-js-bug",
        project="site",
        files=_SLUG,
        turns=(
            ask(
                "slug.js only replaces the first space?! fix",
                read("slug.js"),
                edit("slug.js", "replace(' ', '-')", "replace(/\\s+/g, '-')"),
            ),
        ),
        done=lambda rig: "/\\s+/g" in rig.text("slug.js"),
    ),
    BuiltinTask(
        id="code-split-module",
        turns=(
            ask(
                "move load_expenses out of report.py into its own module tally/load.py, keep everything working",
                read("tally/report.py"),
                write(
                    "tally/load.py",
                    '"""Reading expenses."""\n\nimport csv\n\nfrom tally.money import parse_amount\n\n\n'
                    'def load_expenses(path):\n    """Rows of a CSV with date, category and amount."""\n'
                    '    with open(path, newline="") as file:\n        return [(row["date"], row["category"], '
                    'parse_amount(row["amount"])) for row in csv.DictReader(file)]\n',
                ),
                bash(
                    "python3 - <<'EOF'\nimport re\ns = open('tally/report.py').read()\n"
                    "s = re.sub(r'def load_expenses.*?\\n\\n\\n', '', s, flags=re.S)\n"
                    "s = s.replace('import csv\\n\\n', '')\n"
                    "s = s.replace('from tally.money import format_amount, parse_amount',"
                    " 'from tally.load import load_expenses\\nfrom tally.money import format_amount')\n"
                    "open('tally/report.py', 'w').write(s)\nEOF"
                ),
                read("tally/report.py"),
                bash("python3 -m unittest -q && python3 -m tally.cli expenses.csv"),
            ),
        ),
        done=lambda rig: "def load_expenses" not in rig.text("tally/report.py") and rig.saw("2026-03 677.60"),
    ),
    BuiltinTask(
        id="code-usage-to-stderr",
        turns=(
            ask(
                "cli.py: usage should go to stderr not stdout",
                read("tally/cli.py"),
                edit("tally/cli.py", 'print("usage: tally FILE")', 'print("usage: tally FILE", file=sys.stderr)'),
                bash("python3 -m tally.cli 2>/dev/null; echo exit $?"),
            ),
        ),
        done=lambda rig: "file=sys.stderr" in rig.text("tally/cli.py"),
    ),
    BuiltinTask(
        id="code-patch-docstrings",
        turns=(
            ask(
                "totals_by_month and print_report have no docstrings, add short ones",
                read("tally/report.py"),
                call(
                    "apply_patch",
                    patch="*** Begin Patch\n*** Update File: tally/report.py\n@@\n def totals_by_month(expenses):\n"
                    '+    """Cents per month."""\n     totals = {}\n@@\n def print_report(path):\n'
                    '+    """Print one line per month."""\n*** End Patch',
                ),
                bash("python3 -m unittest -q"),
            ),
        ),
        done=lambda rig: '"""Cents per month."""' in rig.text("tally/report.py"),
    ),
    BuiltinTask(
        id="code-delete-unused-module",
        files={"tally/legacy.py": "def old():\n    return 1\n"},
        turns=(
            ask(
                "is tally/legacy.py still used anywhere? if not delete it",
                grep("legacy"),
                bash("rm tally/legacy.py && python3 -m unittest -q"),
            ),
        ),
        done=lambda rig: not rig.has("tally/legacy.py"),
    ),
    BuiltinTask(
        id="code-remove-dead-css",
        project="site",
        turns=(
            ask(
                "check if the .old class in the css is used, otherwise kick it out",
                grep('class="[^"]*old'),
                edit("css/main.css", ".old { display: none; }\n", ""),
            ),
        ),
        done=lambda rig: ".old" not in rig.text("css/main.css"),
    ),
    BuiltinTask(
        id="code-profile-slow-script",
        files={
            "slow.py": "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n\n\nprint(fib(20))\n",
        },
        turns=(
            ask(
                "slow.py is slow. make it fast, same output",
                read("slow.py"),
                bash("time python3 slow.py"),
                edit("slow.py", "def fib(n):", "from functools import cache\n\n\n@cache\ndef fib(n):"),
                bash("time python3 slow.py"),
            ),
        ),
        done=lambda rig: "@cache" in rig.text("slow.py") and rig.saw("6765"),
    ),
)

GIT = (
    BuiltinTask(
        id="git-commit-typo",
        turns=(
            ask(
                "theres a typo in the readme (expences). fix + commit",
                read("README.md"),
                edit("README.md", "expences", "expenses"),
                bash("git commit -qam 'Fix typo in README' && git log --oneline -1"),
            ),
        ),
        done=lambda rig: "typo" in rig.git("log", "-1", "--format=%s"),
    ),
    BuiltinTask(
        id="git-what-changed",
        files={"README.md": "# tally\n\nAdds up expenses by month.\n"},
        turns=(ask("what did I change since the last commit?", bash("git status --short"), bash("git diff")),),
        done=lambda rig: rig.saw("-Adds up expences"),
    ),
    BuiltinTask(
        id="git-two-commits",
        files={
            "README.md": "# tally\n\nAdds up expenses by month.\n",
            "tally/cli.py": "import sys\n\n\ndef main():\n    print('usage: tally FILE', file=sys.stderr)\n",
        },
        turns=(ask("commit my changes, readme and code separately with sensible messages", _commit_changes_in_two),),
        done=lambda rig: rig.git("rev-list", "--count", "HEAD").strip() == "5" and not rig.git("status", "--short"),
    ),
    BuiltinTask(
        id="git-feature-branch",
        turns=(
            ask(
                "Mach einen Branch json-export und leg da ein leeres tally/export.py mit Docstring an, committen",
                bash("git status -sb"),
                bash("git switch -c json-export"),
                write("tally/export.py", '"""Export of reports as JSON."""\n'),
                bash("git add tally/export.py && git commit -qm 'Start the JSON export' && git status -sb"),
            ),
        ),
        done=lambda rig: "tally/export.py" in rig.git("ls-tree", "-r", "--name-only", "json-export"),
    ),
    BuiltinTask(
        id="git-log-summary",
        turns=(
            ask(
                "résume-moi les derniers commits dans HISTORIQUE.md",
                bash("git log --stat -5"),
                write("HISTORIQUE.md", "- montants\n- rapport mensuel\n- tests et paquet\n"),
            ),
        ),
        done=lambda rig: "rapport mensuel" in rig.text("HISTORIQUE.md"),
    ),
    BuiltinTask(
        id="git-stash-and-pop",
        files={"expenses.csv": "date,category,amount\n2026-04-01,rent,640.00\n"},
        turns=(
            ask(
                "stash my changes, run the tests on a clean tree, then bring the changes back",
                bash("git stash"),
                bash("python3 -m unittest -q"),
                bash("git stash pop && git status --short"),
            ),
        ),
        done=lambda rig: rig.saw("Saved working directory", "OK") and rig.text("expenses.csv").count("\n") == 2,
    ),
    BuiltinTask(
        id="git-undo-file",
        files={"tally/money.py": "broken(\n"},
        turns=(
            ask(
                "I messed up money.py, throw my changes to it away",
                bash("git diff tally/money.py"),
                bash("git checkout -- tally/money.py"),
            ),
        ),
        done=lambda rig: "def parse_amount" in rig.text("tally/money.py"),
    ),
    BuiltinTask(
        id="git-undo-last-commit",
        turns=(
            ask(
                "undo the last commit but keep the files as they are",
                bash("git log --oneline -3"),
                bash("git reset --soft HEAD~1 && git status --short"),
            ),
        ),
        done=lambda rig: "Monthly report" in rig.git("log", "-1", "--format=%s") and rig.has("Makefile"),
    ),
    BuiltinTask(
        id="git-merge-branch",
        turns=(
            ask(
                "branch fix-spelling: fix expences in the readme, then merge to main and delete the branch",
                bash("git switch -c fix-spelling && grep -n expences README.md"),
                edit("README.md", "expences", "expenses"),
                bash("git commit -qam 'Fix spelling' && git switch -q main && git merge --no-edit fix-spelling"),
                bash("git branch -d fix-spelling && git log --oneline -2"),
            ),
        ),
        done=lambda rig: "fix-spelling" not in rig.git("branch") and "Fix spelling" in rig.git("log", "main"),
    ),
    BuiltinTask(
        id="git-branch-at-old-commit",
        turns=(ask("put a branch called before-packaging where the monthly report came in", _branch_of_old_version),),
        done=lambda rig: "Monthly report" in rig.git("log", "-1", "--format=%s", "before-packaging"),
    ),
    BuiltinTask(
        id="git-who-wrote-todo",
        turns=(ask("who added the TODO in report.py and when?", _blame),),
        done=lambda rig: rig.saw("Mira Holm", "tally/report.py"),
    ),
    BuiltinTask(
        id="git-ignore-and-untrack",
        turns=(
            ask(
                "expenses.csv should not be in git. untrack it but keep the file, and ignore it",
                bash("git ls-files && cat .gitignore"),
                bash("git rm --cached -q expenses.csv && echo expenses.csv >> .gitignore"),
                bash("git add .gitignore && git commit -qm 'Keep expenses out of git' && git status --short"),
            ),
        ),
        done=lambda rig: "expenses.csv" not in rig.git("ls-files") and rig.has("expenses.csv"),
    ),
    BuiltinTask(
        id="git-amend-message",
        turns=(
            ask(
                "letzte commit message bitte ändern in 'Add tests, packaging and docs'",
                bash("git log -1"),
                bash("git commit --amend -qm 'Add tests, packaging and docs' && git log -1 --format=%s"),
            ),
        ),
        done=lambda rig: rig.git("log", "-1", "--format=%s").strip() == "Add tests, packaging and docs",
    ),
    BuiltinTask(
        id="git-mv-file",
        turns=(
            ask(
                "rename tests/test_tally.py to tests/test_all.py (git mv), run tests, commit",
                bash("git mv tests/test_tally.py tests/test_all.py && python3 -m unittest -q"),
                bash("git commit -qm 'Rename the tests' && git show --stat"),
            ),
        ),
        done=all_of(
            lambda rig: rig.has("tests/test_all.py") and not rig.has("tests/test_tally.py"),
            lambda rig: "Rename the tests" in rig.git("log", "-1"),
        ),
    ),
    BuiltinTask(
        id="git-clean-untracked",
        files={"scratch.txt": "x\n", "out.tmp": "y\n"},
        turns=(
            ask(
                "get rid of the untracked stuff (scratch.txt and out.tmp)",
                bash("git status --short"),
                bash("rm scratch.txt out.tmp && git status --short"),
            ),
        ),
        done=lambda rig: not rig.has("scratch.txt") and not rig.has("out.tmp"),
    ),
    BuiltinTask(
        id="git-revert",
        turns=(
            ask(
                "revert the last commit please",
                bash("git log --oneline -2"),
                bash("git revert --no-edit HEAD && git log --oneline -2"),
            ),
        ),
        done=lambda rig: "Revert" in rig.git("log", "-1", "--format=%s"),
    ),
)

TASKS: tuple[BuiltinTask, ...] = CODE + GIT
