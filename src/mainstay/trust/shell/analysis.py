"""What a shell script would run, remove, write and reach, as far as reading it can tell; and what it cannot tell.

A command is not its first word: pipes, substitutions, wrappers like `env` and `xargs`, and shells inside of shells are
followed to what really runs. Whatever cannot be followed is told in a sentence, never passed over.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from functools import lru_cache

import msgspec

from mainstay.trust.shell.effects import Effects, effects_of, redirected
from mainstay.trust.shell.grammar import Grammar
from mainstay.trust.shell.inline import how_opaque, telling_name
from mainstay.trust.shell.nouns import NESTING_MAX, TEXT_MAX, WORK_LEAST, Command, Found, Unparsable
from mainstay.trust.shell.programs import LOCAL, TALKING
from mainstay.trust.shell.runs import TRANSPARENT, Runs, what_runs

COMMANDS_MAX = 2000
_SHOWN_MAX = 500
_SPLIT_SIGN = re.compile(r"[$<>({]\\\n")
_EVALUATED = re.compile(r"\[[^\]\[]*(?:\$\(|`)")


class Simple(msgspec.Struct, frozen=True):
    """One command. None among its words: not known until it runs. `wraps`: it only starts the next one."""

    argv: tuple[str | None, ...]
    text: str
    wraps: bool = False

    @property
    def program(self) -> str:
        """Its name without a folder; empty if that is not known."""
        return (self.argv[0] or "").rsplit("/", 1)[-1]


class Script(msgspec.Struct, frozen=True):
    """What was found in a script. `redirected` are those `writes` that the shell itself does."""

    commands: tuple[Simple, ...] = ()
    opaque: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reaches: tuple[str, ...] = ()
    redirected: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # programs of which nothing is known


@lru_cache(maxsize=256)
def analyse(script: str) -> Script:
    """Read a script. It never fails: what cannot be read is opaque."""
    made = _Analysis(len(script))
    if len(script) > TEXT_MAX:
        return Script(opaque=("The script is too long to be read.",))
    if odd := _odd_character(script):
        made.say(f"the script holds a character that does not show ({odd})")
    made.read(script, 0)
    return made.script()


def _odd_character(script: str) -> str:
    """A control, an invisible sign, or a space that is none to the shell: what is shown is not what would run."""
    if script.isascii() and script.isprintable():
        return ""
    for char in script:
        if char in "\n\t" or " " <= char <= "~":
            continue
        kind = unicodedata.category(char)
        if kind in ("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp") or char in "\u115f\u1160\u3164\uffa0":
            return f"U+{ord(char):04X}"
    return ""


class _Analysis:
    def __init__(self, length: int) -> None:
        self.commands: list[Simple] = []
        self.opaque: list[str] = []
        self.effects = Effects()
        self.redirected: list[str] = []
        self.others: list[str] = []
        self.work = 0
        self.work_max = WORK_LEAST + 3 * length
        self.moves: list[tuple[str | None, str]] = []  # every cd: where to, and what joins it to the next

    def say(self, sentence: str) -> None:
        sentence = sentence[:1].upper() + sentence[1:_SHOWN_MAX] + "."
        if sentence not in self.opaque:
            self.opaque.append(sentence)

    def read(self, text: str, depth: int) -> None:
        if _SPLIT_SIGN.search(text):
            self.say("a sign of the shell is split over two lines")
        found = Found(work=self.work, work_max=self.work_max)
        try:
            Grammar(text, found, depth).commands("")
        except Unparsable as error:
            self.say(f"the script cannot be read: {error}")
        except RecursionError:
            self.say("the script cannot be read: it is nested too deeply")
        self.work = found.work
        for sentence in found.troubles:
            self.say(sentence)
        for at, command in enumerate(found.commands):
            following = found.commands[at + 1].joint if at + 1 < len(found.commands) else ""
            self.follow(command, depth, following)

    def follow(self, command: Command, depth: int, following: str = "") -> None:
        """Take note of one command and of all that it starts."""
        if len(self.commands) >= COMMANDS_MAX or depth > NESTING_MAX:
            self.say("the script runs more than can be followed")
            return
        self._assigned(command)
        self._redirected(command)
        if not command.words:
            return
        name = (command.words[0].value or "").rsplit("/", 1)[-1]
        runs = what_runs(name, command) if name else None
        self.commands.append(
            Simple(
                tuple(word.value for word in command.words),
                " ".join(word.raw for word in command.words),
                runs is not None and name in TRANSPARENT and bool(runs.commands or runs.scripts),
            )
        )
        if command.words[0].value is None:
            self.say(f"which program {command.words[0].raw} stands for is not known before it runs")
            return
        self._effects(name, command, following)
        if said := how_opaque(name, command.words[1:]):
            self.say(said)
        if runs is not None:
            self._started(runs, depth)

    def _redirected(self, command: Command) -> None:
        made = Effects()
        for target in redirected(command.redirects, made):
            self.redirected += self._placed(target)
        self.effects.writes += [place for target in made.writes for place in self._placed(target)]
        self.effects.reaches += made.reaches

    def _effects(self, name: str, command: Command, following: str) -> None:
        made = effects_of(name, command.words[1:])
        if name in ("cd", "pushd", "popd", "chdir"):
            operands = [word.value for word in command.words[1:] if not (word.value or "").startswith("-")]
            plain = len(operands) == 1 and command.depth == 0 and name == "cd" and len(self.commands) == 1
            self.moves.append((operands[0] if plain else None, following))
        self.effects.removes += [place for target in made.removes for place in self._placed(target)]
        self.effects.writes += [place for target in made.writes for place in self._placed(target)]
        self.effects.reaches += made.reaches
        for sentence in made.opaque:
            self.say(sentence)
        program = command.words[0].value or ""
        understood = name in LOCAL or (name in TALKING and made.reaches)
        if not understood or ("/" in program and not in_system(program)):
            self.others.append(program)

    def _placed(self, target: str) -> list[str]:
        """Where a relative target lies once the script has moved; unknown, if it moves in ways not followed here."""
        if not self.moves or target.startswith("/") or target == "?":
            return [target]
        folder, following = self.moves[0]
        if len(self.moves) > 1 or folder is None or target.startswith("~"):
            return ["?"]
        moved = posixpath.join(folder, target)
        return [moved] if following == "&&" else [moved, target]  # without &&, it goes on where it was if cd fails

    def _assigned(self, command: Command) -> None:
        for name, word in command.assigned:
            if telling_name(name):
                self.say(f"setting {name} may change what runs")
            if word.value is not None and ("$(" in word.value or "`" in word.value):
                self.say(f"{name} holds a text that reads like a command")
        # bash runs what stands in `a[$(…)]` wherever it takes a text for a number or for a name
        texts = [*command.words, *(redirect.word for redirect in command.redirects)]
        if any("[" in (word.value or "") and _EVALUATED.search(word.value or "") for word in texts):
            self.say("an argument may be evaluated as arithmetic, which runs what stands in it")

    def _started(self, runs: Runs, depth: int) -> None:
        for name, _ in runs.assigned:
            if telling_name(name):
                self.say(f"setting {name} may change what runs")
        for sentence in runs.unclear:
            self.say(sentence)
        for words in runs.commands:
            self.follow(Command(words, [], [], "", 1), depth + 1)
        for text in runs.scripts:
            self.read(text, depth + 1)

    def script(self) -> Script:
        return Script(
            commands=tuple(self.commands),
            opaque=tuple(self.opaque),
            removes=tuple(dict.fromkeys(self.effects.removes)),
            writes=tuple(dict.fromkeys(self.effects.writes)),
            reaches=tuple(dict.fromkeys(self.effects.reaches)),
            redirected=tuple(dict.fromkeys(self.redirected)),
            others=tuple(dict.fromkeys(self.others)),
        )


def in_system(path: str) -> bool:
    """True for a program's path in a folder that the system keeps its programs in."""
    return posixpath.dirname(path) in SYSTEM_FOLDERS


SYSTEM_FOLDERS = frozenset(
    ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin")
)
