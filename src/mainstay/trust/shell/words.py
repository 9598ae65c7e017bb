"""The words of a shell script: quoting, escapes, expansions, as POSIX sh and bash read them.

A word whose value only a running shell can know has none here. Where the two shells would read a text differently,
that is trouble, and whoever asked hears that the script cannot be understood for certain.
"""

from __future__ import annotations

import re

from mainstay.trust.shell.nouns import NESTING_MAX, UNKNOWN, Found, Redirect, Unparsable, Word, ansi, literal

_PLAIN = re.compile(r"[^\s\\'\"`$()<>|&;{\[*?~]+")
_BARE = re.compile(r"[\w./:=,@%+-]+(?=[ \n;|]|$)", re.ASCII)
_IN_DOUBLE = re.compile(r"[^\\\"`$]+")
_IN_BRACES = re.compile(r"[^\\\"'`$}@<>]+")
_IN_ARITHMETIC = re.compile(r"[^\\\"'`$()]+")
_SIMPLE_PARAMETER = re.compile(r"\{[#!]?\w+\}|\w+|[@*#?$!-]")
_PATTERN = frozenset("*?[{~")


class _Pieces:
    """A word in the making. `marks` is its text with everything quoted blanked out: there, patterns are patterns."""

    __slots__ = ("known", "marks", "prefix", "quoted", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.marks: list[str] = []
        self.known = True
        self.quoted = False
        self.prefix: str | None = None

    def plain(self, text: str) -> None:
        self.text.append(text)
        self.marks.append(text)

    def quote(self, text: str) -> None:
        self.text.append(text)
        self.marks.append("\0" * len(text))
        self.quoted = True

    def unknown(self) -> None:
        if self.prefix is None:
            self.prefix = "".join(self.text)
        self.known = False
        self.marks.append("\0")

    def word(self, raw: str) -> Word:
        text, marks = "".join(self.text), "".join(self.marks)
        if self.known and _PATTERN.isdisjoint(marks):
            return Word(text, raw, text, text, self.quoted)
        brace, glob = _brace(marks), _glob(marks)
        tilde = marks.startswith("~")
        if self.known and brace < 0 and glob < 0 and not tilde:
            return Word(text, raw, text, text, self.quoted)
        prefix = text if self.prefix is None else self.prefix
        for found in (brace, glob):
            if found >= 0:
                prefix = prefix[:found] if len(marks) == len(text) else ""
        shown = text if self.known and brace < 0 else None
        return Word(None, raw, "" if tilde else prefix, shown, self.quoted)


def _brace(marks: str) -> int:
    """Where `{a,b}` or `{1..9}` begins; -1 if there is none."""
    start = marks.find("{")
    if start < 0:
        return -1
    between = [at for at in (marks.find(",", start), marks.find("..", start)) if at >= 0]
    return start if between and marks.rfind("}") > min(between) else -1


def _glob(marks: str) -> int:
    """Where a pattern over file names begins; -1 if there is none."""
    start = marks.find("[")
    found = [at for at in (marks.find("*"), marks.find("?")) if at >= 0]
    if 0 <= start < marks.rfind("]"):
        found.append(start)
    return min(found, default=-1)


class Lexer:
    """Reads one text. Scripts inside of it, in `$(…)` and the like, are read in place by `commands`."""

    def __init__(self, text: str, found: Found, depth: int = 0) -> None:
        self.text = text
        self.pos = 0
        self.depth = depth
        self.found = found
        self.pending: list[tuple[Redirect, str, bool, bool]] = []  # here-documents whose text comes with the next line
        self.outer_pending = 0
        found.work += len(text)
        self.worked(0)
        if depth > NESTING_MAX:
            raise Unparsable("it is nested too deeply")

    def worked(self, characters: int) -> None:
        self.found.work += characters
        if self.found.work > self.found.work_max:
            raise Unparsable("reading it would take too long")

    def commands(self, end: str) -> str:
        raise NotImplementedError

    def nested_script(self, text: str) -> None:
        """Read another text as a script."""
        raise NotImplementedError

    def nest(self, end: str) -> None:
        """Commands up to `end`, one level down."""
        if self.depth >= NESTING_MAX:
            raise Unparsable("it is nested too deeply")
        outer, self.pending = self.pending, []
        self.outer_pending += len(outer)
        self.depth += 1
        self.commands(end)
        self.depth -= 1
        self.outer_pending -= len(outer)
        if self.pending:
            raise Unparsable("a here-document has no text")
        self.pending = outer

    def skip_blanks(self) -> None:
        """Spaces, continued lines and comments; not newlines."""
        text, length = self.text, len(self.text)
        while self.pos < length:
            char = text[self.pos]
            if char in " \t":
                self.pos += 1
            elif char == "\\" and text.startswith("\\\n", self.pos):
                self.pos += 2
            elif char == "#" and self._at_word_start():
                end = text.find("\n", self.pos)
                self.pos = length if end < 0 else end
            else:
                return

    def _at_word_start(self) -> bool:
        # a `#` behind a continued line is where the shells differ from what one would think: ask what stands before it
        before = self.pos - 1
        while before >= 1 and self.text[before - 1 : before + 1] == "\\\n":
            before -= 2
        return before < 0 or self.text[before] in " \t\n;&|()<>"

    def word(self) -> Word:
        text, length, start = self.text, len(self.text), self.pos
        if found := _BARE.match(text, start):  # most words need no more than this
            self.pos = found.end()
            return Word(found[0], found[0], found[0], found[0])
        made = _Pieces()
        while self.pos < length:
            if found := _PLAIN.match(text, self.pos):
                made.plain(found[0])
                self.pos = found.end()
                continue
            char = text[self.pos]
            if char in "<>" and text.startswith("(", self.pos + 1):
                self.pos += 2
                self.nest(")")
                made.unknown()
            elif char in " \t\n|&;<>()":
                break
            elif char == "\\":
                self._escape(made)
            elif char == "'":
                made.quote(self._single())
            elif char == '"':
                self._double(made)
            elif char == "`":
                self._backtick(double=False)
                made.unknown()
            elif char == "$":
                self._dollar(made, double=False)
            else:  # pattern characters, and white space that the shells take for letters
                made.plain(char)
                self.pos += 1
        if self.pos == start:
            raise Unparsable(f"a {text[start : start + 1]!r} stands where no shell expects it")
        return made.word(text[start : self.pos])

    def _escape(self, made: _Pieces) -> None:
        following = self.text[self.pos + 1 : self.pos + 2]
        self.pos += 2
        if following != "\n":
            made.quote(following or "\\")

    def _single(self) -> str:
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            raise Unparsable("a quote is not closed")
        inner = self.text[self.pos + 1 : end]
        self.pos = end + 1
        return inner

    def _double(self, made: _Pieces) -> None:
        text, length = self.text, len(self.text)
        self.pos += 1
        made.quote("")
        while self.pos < length:
            if found := _IN_DOUBLE.match(text, self.pos):
                made.quote(found[0])
                self.pos = found.end()
                continue
            char = text[self.pos]
            if char == '"':
                self.pos += 1
                return
            self._inside_double(made)
        raise Unparsable("a quote is not closed")

    def _inside_double(self, made: _Pieces) -> None:
        """A backslash, a dollar or a backtick where quotes are double, or in a here-document."""
        char = self.text[self.pos]
        if char == "\\":
            following = self.text[self.pos + 1 : self.pos + 2]
            self.pos += 2
            if following != "\n":
                made.quote(following if following and following in '$`"\\' else "\\" + following)
        elif char == "`":
            self._backtick(double=True)
            made.unknown()
        else:
            self._dollar(made, double=True)

    def here_text(self) -> str | None:
        """The whole text as a here-document whose delimiter was not quoted; None if it is not all literal."""
        made = _Pieces()
        while self.pos < len(self.text):
            char = self.text[self.pos]
            if char in "\\`$":
                self._inside_double(made)
            else:
                found = re.compile(r"[^\\`$]+").match(self.text, self.pos)
                assert found is not None
                made.quote(found[0])
                self.pos = found.end()
        return "".join(made.text) if made.known else None

    def _backtick(self, *, double: bool) -> None:
        text, length, pos = self.text, len(self.text), self.pos + 1
        inner: list[str] = []
        while pos < length and text[pos] != "`":
            if text[pos] == "\\" and pos + 1 < length:
                escaped = text[pos + 1]
                if double and escaped == '"':
                    self.found.trouble("quotes in backticks in quotes are read differently by different shells")
                inner.append(escaped if escaped in ('`$\\"' if double else "`$\\") else "\\" + escaped)
                pos += 2
            else:
                inner.append(text[pos])
                pos += 1
        if pos >= length:
            raise Unparsable("a backtick is not closed")
        self.pos = pos + 1
        self.nested_script("".join(inner))

    def _dollar(self, made: _Pieces, *, double: bool) -> None:
        text = self.text
        self.pos += 1
        following = text[self.pos : self.pos + 1]
        if following == "(":
            if not (text.startswith("((", self.pos) and self._arithmetic(self.pos + 2)):
                self.pos += 1
                self.nest(")")
            made.unknown()
        elif found := _SIMPLE_PARAMETER.match(text, self.pos):
            self.pos = found.end()
            made.unknown()
        elif following == "{":
            self._parameter(double=double)
            made.unknown()
        elif following == "'" and not double:
            made.quote(self._ansi())
        elif following == "[":
            self.found.trouble("`$[` is arithmetic to one shell and text to another")
            made.unknown()
        elif not (following == '"' and not double):  # $"…" is "…", translated
            made.plain("$")

    def _ansi(self) -> str:
        """`$'…'`, as bash reads it."""
        pos, length, text = self.pos + 1, len(self.text), self.text
        while pos < length and text[pos] != "'":
            pos += 2 if text[pos] == "\\" else 1
        if pos >= length:
            raise Unparsable("a quote is not closed")
        inner = text[self.pos + 1 : pos]
        self.pos = pos + 1
        if "\\'" in inner:
            self.found.trouble("a quote inside of $'…' ends it in some shells")
        return ansi(inner)

    def _parameter(self, *, double: bool) -> None:
        text, length = self.text, len(self.text)
        self.pos += 1
        if text[self.pos : self.pos + 1] in (" ", "\t", "\n", "|"):
            raise Unparsable("`${ …}` runs commands in some shells")
        ignored = _Pieces()
        while self.pos < length:
            if found := _IN_BRACES.match(text, self.pos):
                self.pos = found.end()
                continue
            char = text[self.pos]
            if char == "}":
                self.pos += 1
                return
            if char in "@<>":
                if text.startswith(("@P", "<(", ">("), self.pos):
                    self.found.trouble("an expansion runs what stands in it")
                self.pos += 1
            elif char in "'\"" and double:
                self.found.trouble('quotes inside of "${…}" are read differently by different shells')
                self.pos += 1
            elif char == "'":
                self._single()
            elif char == '"':
                self._double(ignored)
            else:
                self._inside_double(ignored)
        raise Unparsable("a `${` is not closed")

    def _arithmetic(self, start: int) -> bool:
        """Read `$((…))` or `((…))` from behind its parentheses; False, with nothing read, if it is none after all."""
        text, length, before, open_inside = self.text, len(self.text), self.pos, 0
        commands, troubles = len(self.found.commands), len(self.found.troubles)
        depth, pending, outer_pending = self.depth, self.pending, self.outer_pending
        if depth >= NESTING_MAX:
            raise Unparsable("it is nested too deeply")
        self.pos = start
        self.depth += 1
        ignored = _Pieces()
        try:
            while self.pos < length:
                if found := _IN_ARITHMETIC.match(text, self.pos):
                    self.pos = found.end()
                    continue
                char = text[self.pos]
                if char == ")" and not open_inside:
                    break
                open_inside += (char == "(") - (char == ")")
                if char in "'\"":
                    self.found.trouble("quotes inside of arithmetic are read differently by different shells")
                if char in "()'\"":
                    self.pos += 1
                else:
                    self._inside_double(ignored)
            if text.startswith("))", self.pos):
                self.pos += 2
                self.depth = depth
                return True
        except Unparsable:
            pass  # it may still be a script
        self.worked(self.pos - before)  # which is read again
        self.pos, self.depth, self.pending, self.outer_pending = before, depth, pending, outer_pending
        del self.found.commands[commands:]
        del self.found.troubles[troubles:]
        return False

    def newline(self) -> None:
        """Past a line's end, and past the here-documents that it promised."""
        self.pos += 1
        if self.outer_pending:
            raise Unparsable("a here-document begins in the middle of another command")
        pending, self.pending = self.pending, []
        for redirect, delimiter, quoted, tabs in pending:
            self._here_document(redirect, delimiter, quoted, tabs)

    def _here_document(self, redirect: Redirect, delimiter: str, quoted: bool, tabs: bool) -> None:
        text, lines, continued = self.text, [], False
        while True:
            if self.pos >= len(text):
                raise Unparsable("a here-document does not end")
            end = text.find("\n", self.pos)
            end = len(text) if end < 0 else end
            line = text[self.pos : end]
            self.pos = min(end + 1, len(text))
            bare = line.lstrip("\t") if tabs else line
            if bare == delimiter and not continued:
                break
            continued = not quoted and (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
            if continued:
                self.found.trouble("a here-document continues a line over its end")
            lines.append(bare)
        body = "".join(line + "\n" for line in lines)
        value = body if quoted else type(self)(body, self.found, self.depth + 1).here_text()
        redirect.word = literal(value) if value is not None else UNKNOWN
