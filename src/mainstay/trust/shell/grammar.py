"""The grammar of a shell script, as far as it takes to find every command in it.

It is read loosely: `then`, `do`, `{` and their like only say that a command may follow. A script that no shell would
accept may be accepted here, but no command is overlooked for it.
"""

from __future__ import annotations

import re

from mainstay.trust.shell.nouns import UNKNOWN, Command, Redirect, Unparsable, Word
from mainstay.trust.shell.words import Lexer

_OPENING = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc"}
_CLOSING = {"fi", "done", "}"}
_KEYWORDS = _OPENING | _CLOSING | {"for", "select", "case", "esac", "function", "time", "[["}
_REDIRECT = re.compile(r"(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|(&>>|&>)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?\+?=")
_OPEN_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[[^\]]*$")
_OPERATOR = re.compile(r"&&|\|\||\|&|\||;|&(?!>)")
_DECLARING = {"declare", "typeset", "local", "export", "readonly"}


class Grammar(Lexer):
    """Puts what it reads into `found`."""

    def nested_script(self, text: str) -> None:
        Grammar(text, self.found, self.depth + 1).commands("")

    def commands(self, end: str) -> str:
        """Up to `end`: nothing, a parenthesis, or `;;`, which `esac` stands for too. Returns what it ended with."""
        text, joint = self.text, ""
        while True:
            self.skip_blanks()
            char = text[self.pos : self.pos + 1]
            if not char:
                if end or self.pending:
                    raise Unparsable("something in it is not closed")
                return ""
            if char == "\n":
                self.newline()
                joint = joint if joint in ("|", "|&", "&&", "||") else "\n"
            elif text.startswith((";;", ";&"), self.pos):
                if end != ";;":
                    raise Unparsable("a `;;` stands outside of a case")
                self.pos += 3 if text.startswith(";;&", self.pos) else 2
                return ";;"
            elif char == ")":
                if end != ")":
                    raise Unparsable("a parenthesis is closed that was not opened")
                self.pos += 1
                return ")"
            elif char == "(":
                self._parenthesis()
                joint = ";"
            elif found := _OPERATOR.match(text, self.pos):
                joint = found[0]
                self.pos = found.end()
            elif self._command(joint) == "esac" and end == ";;":
                return "esac"
            else:
                joint = ";"

    def _parenthesis(self) -> None:
        if self.text.startswith("((", self.pos):
            start = self.pos
            if self._arithmetic(self.pos + 2):
                # to one shell these are numbers, to another two subshells: whatever it would run is looked at as well
                try:
                    self.nested_script(self.text[start + 2 : self.pos - 2])
                except Unparsable:
                    self.found.trouble("arithmetic in it reads as commands to some shells")
                return
        self.pos += 1
        self.nest(")")

    def _command(self, joint: str) -> str:
        """One simple command, or one keyword; which one, is returned."""
        made = Command([], [], [], joint, self.depth)
        self.found.commands.append(made)  # before what stands inside of it, for the order in which things are told
        place = len(self.found.commands) - 1
        both = False  # streams were redirected together
        while True:
            self.skip_blanks()
            char = self.text[self.pos : self.pos + 1]
            if not char or char in "\n;|)" or (char == "&" and not self.text.startswith("&>", self.pos)):
                break
            if char in "<>&0123456789{" and self._redirect(made):
                both = both or made.redirects[-1].operator.startswith("&>")
                continue
            if char == "(":
                self._after_parenthesis(made)
                break
            if both:
                self.found.trouble("what follows `&>` is a command of its own to some shells")
            word = self.word()
            if not made.words and (found := _ASSIGNMENT.match(_joined(word.raw))):
                self._assign(made, found, word)
            elif not made.words and not made.assigned and not made.redirects and _is_keyword(word):
                del self.found.commands[place]
                self._keyword(word.value or "")
                return word.value or ""
            else:
                if "[" in word.raw and _OPEN_SUBSCRIPT.match(word.raw):
                    self.found.trouble("a subscript goes on over several words, as one shell reads it")
                made.words.append(word)
                if made.words[0].value in _DECLARING and word.raw.endswith("=") and self.text.startswith("(", self.pos):
                    self._array()
        return ""

    def _redirect(self, made: Command) -> bool:
        found = _REDIRECT.match(self.text, self.pos)
        if found is None:
            return False
        operator = found[2] or found[3]
        if len(found[1] or "") > 1:
            self.found.trouble("a file descriptor of more than one digit is an argument to some shells")
        self.pos = found.end()
        self.skip_blanks()
        word = self.word()
        redirect = Redirect(operator, word)
        if operator in (">&", "<&") and not re.fullmatch(r"[\w./-]+", word.raw):
            self.found.trouble("bash expands what follows `>&` twice, quotes or not")
        made.redirects.append(redirect)
        if operator in ("<<", "<<-"):
            if word.shown is None or "$" in word.raw or "`" in word.raw:
                raise Unparsable("where a here-document ends cannot be known")
            redirect.word = UNKNOWN
            self.pending.append((redirect, word.shown, word.quoted, operator == "<<-"))
        return True

    def _assign(self, made: Command, found: re.Match[str], word: Word) -> None:
        if len(_joined(word.raw)) == found.end() and self.text.startswith("(", self.pos):
            self._array()
            made.assigned.append((found[1], UNKNOWN))
            return
        value = word.shown[found.end() :] if word.shown is not None and len(word.shown) >= found.end() else None
        made.assigned.append((found[1], Word(value, word.raw, "", value, True)))

    def _array(self) -> None:
        self.pos += 1
        while True:
            self.skip_blanks()
            char = self.text[self.pos : self.pos + 1]
            if char == ")":
                self.pos += 1
                if self.text[self.pos : self.pos + 1] not in ("", " ", "\t", "\n", ";", "&", "|", ")"):
                    raise Unparsable("a list of values goes on behind its end")
                return
            if char == "\n":
                self.newline()
            else:
                self.word()  # raises at the end of the text

    def _after_parenthesis(self, made: Command) -> None:
        """`name()`: what follows is its body, and read as if it were run here."""
        self.pos += 1
        self.skip_blanks()
        if len(made.words) != 1 or made.assigned or not self.text.startswith(")", self.pos):
            raise Unparsable("a parenthesis stands where no shell expects it")
        self.pos += 1
        made.words.clear()

    def _keyword(self, name: str) -> None:
        match name:
            case "for" | "select":
                self._for()
            case "case":
                self._case()
            case "function":
                self.skip_blanks()
                self.word()
                self.skip_blanks()
                if re.compile(r"\(\s*\)").match(self.text, self.pos):
                    self.pos = self.text.index(")", self.pos) + 1
            case "time":
                self.skip_blanks()
                while found := re.compile(r"-(?:p|-)(?=[\s\\])").match(self.text, self.pos):
                    self.pos = found.end()
                    self.skip_blanks()
            case "[[":
                self._test()

    def _skip_lines(self) -> None:
        self.skip_blanks()
        while self.text.startswith("\n", self.pos):
            self.newline()
            self.skip_blanks()

    def _for(self) -> None:
        self.skip_blanks()
        if self.text.startswith("((", self.pos):
            if not self._arithmetic(self.pos + 2):
                raise Unparsable("a loop's arithmetic is not closed")
            return
        self.word()
        self._skip_lines()
        if not re.compile(r"in(?=[\s;])").match(self.text, self.pos):
            return
        self.pos += 2
        while True:
            self.skip_blanks()
            if self.text[self.pos : self.pos + 1] in ("", "\n", ";", "&"):
                return
            self.word()

    def _case(self) -> None:
        self.skip_blanks()
        self.word()
        self._skip_lines()
        if self.word().raw != "in":
            raise Unparsable("a case has no `in`")
        if self.depth >= 20:
            raise Unparsable("it is nested too deeply")
        self.depth += 1
        while True:
            self._skip_lines()
            if re.compile(r"esac(?![^\s;|&)])").match(self.text, self.pos):
                self.pos += 4
                break
            if self.text.startswith("(", self.pos):
                self.pos += 1
            while True:
                self.skip_blanks()
                self.word()
                self.skip_blanks()
                if not self.text.startswith("|", self.pos):
                    break
                self.pos += 1
            if not self.text.startswith(")", self.pos):
                raise Unparsable("a pattern of a case is not closed")
            self.pos += 1
            if self.commands(";;") == "esac":
                break
        self.depth -= 1

    def _test(self) -> None:
        """`[[ … ]]`: a test to bash, and to others a command that may be followed by more of them."""
        side: list[Word] | None = None
        while True:
            before = self.pos
            self._skip_lines()
            if "\n" in self.text[before : self.pos]:
                self.found.trouble("a test over several lines is several commands to some shells")
            char = self.text[self.pos : self.pos + 1]
            if not char:
                raise Unparsable("a `[[` is not closed")
            if self.text.startswith(("&&", "||"), self.pos):
                self._test_side(side)
                side = []
                self.pos += 2
            elif char in "<>()" and not self.text.startswith(("<(", ">("), self.pos):
                self._test_sign(side)
                self.pos += 1
            elif char in ";|&":
                self._test_sign(side)
                self._test_side(side)
                return  # no test: the rest is read as commands
            else:
                word = self.word()
                if word.value == "=~":
                    self._regex()
                if side is not None:
                    side.append(word)
                if word.value == "]]" and not word.quoted:
                    self._test_side(side)
                    return

    def _test_sign(self, side: list[Word] | None) -> None:
        if side is not None:
            self.found.trouble("a sign in a test redirects or joins commands to some shells")

    def _test_side(self, side: list[Word] | None) -> None:
        if side and not (side[0].value or "").startswith(("-", "!")):
            self.found.commands.append(Command(side, [], [], "&&", self.depth))

    def _regex(self) -> None:
        self.skip_blanks()
        while self.text[self.pos : self.pos + 1] not in ("", " ", "\t", "\n"):
            if self.text[self.pos] in "()|<>&;":
                if self.text[self.pos] in "|&;":
                    self.found.trouble("a regular expression reads as commands to some shells")
                self.pos += 1
            else:
                self.word()


def _joined(raw: str) -> str:
    """Without the ends of lines that go on; what stands in quotes does not matter to whoever asks."""
    return raw.replace("\\\n", "") if "\n" in raw else raw


def _is_keyword(word: Word) -> bool:
    return not word.quoted and word.value in _KEYWORDS
