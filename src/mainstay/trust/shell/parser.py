"""Parser for shell scripts that finds every command in them.

The grammar is loose: keywords such as `then`, `do` and `{` only mean that a command may follow. A script that no shell
accepts may be accepted here, but no command is overlooked because of that.
"""

from __future__ import annotations

import re

from mainstay.trust.shell.lexer import ShellLexer
from mainstay.trust.shell.syntax import UNKNOWN_WORD, Redirection, ScriptUnparsable, ShellCommand, ShellWord

_OPENING = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "coproc"}
_CLOSING = {"fi", "done", "}"}
_KEYWORDS = _OPENING | _CLOSING | {"for", "select", "case", "esac", "function", "time", "[["}
_REDIRECT = re.compile(r"(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|(&>>|&>)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?\+?=")
_OPEN_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[[^\]]*$")
_OPERATOR = re.compile(r"&&|\|\||\|&|\||;|&(?!>)")
_DECLARING = {"declare", "typeset", "local", "export", "readonly"}


class ShellParser(ShellLexer):
    """Collects the commands of a script in `state`."""

    def parse_nested_script(self, text: str) -> None:
        ShellParser(text, self.state, self.depth + 1).parse_commands("")

    def parse_commands(self, end: str) -> str:
        """Parse up to `end`: the end of the text (""), `)`, or `;;` (or `esac` in its place). Return what ended it."""
        text, operator = self.text, ""
        while True:
            self.skip_blanks()
            char = text[self.pos : self.pos + 1]
            if not char:
                if end or self.pending:
                    raise ScriptUnparsable("something in it is not closed")
                return ""
            if char == "\n":
                self.skip_newline()
                operator = operator if operator in ("|", "|&", "&&", "||") else "\n"
            elif text.startswith((";;", ";&"), self.pos):
                if end != ";;":
                    raise ScriptUnparsable("a `;;` is outside of a case")
                self.pos += 3 if text.startswith(";;&", self.pos) else 2
                return ";;"
            elif char == ")":
                if end != ")":
                    raise ScriptUnparsable("a parenthesis is closed that was not opened")
                self.pos += 1
                return ")"
            elif char == "(":
                self._parse_parenthesis()
                operator = ";"
            elif match := _OPERATOR.match(text, self.pos):
                operator = match[0]
                self.pos = match.end()
            elif self._parse_command(operator) == "esac" and end == ";;":
                return "esac"
            else:
                operator = ";"

    def _parse_parenthesis(self) -> None:
        if self.text.startswith("((", self.pos):
            start = self.pos
            if self._read_arithmetic(self.pos + 2):
                # Arithmetic to one shell, two subshells to another: what the latter would run is checked as well.
                try:
                    self.parse_nested_script(self.text[start + 2 : self.pos - 2])
                except ScriptUnparsable:
                    self.state.add_ambiguity("some shells read arithmetic in it as commands")
                return
        self.pos += 1
        self.parse_nested(")")

    def _parse_command(self, operator: str) -> str:
        """Parse one simple command or one keyword; return the keyword, or "" after a command."""
        command = ShellCommand([], [], [], operator, self.depth)
        # before the commands nested in it, so that they are reported in the order of the script
        self.state.commands.append(command)
        index = len(self.state.commands) - 1
        redirects_both = False  # stdout and stderr were redirected together
        while True:
            self.skip_blanks()
            char = self.text[self.pos : self.pos + 1]
            if not char or char in "\n;|)" or (char == "&" and not self.text.startswith("&>", self.pos)):
                break
            if char in "<>&0123456789{" and self._parse_redirect(command):
                redirects_both = redirects_both or command.redirects[-1].operator.startswith("&>")
                continue
            if char == "(":
                self._parse_function_head(command)
                break
            if redirects_both:
                self.state.add_ambiguity("what follows `&>` is a command of its own to some shells")
            word = self.read_word()
            if not command.words and (match := _ASSIGNMENT.match(_join_continued_lines(word.raw))):
                self._add_assignment(command, match, word)
            elif not command.words and not command.assignments and not command.redirects and _is_keyword(word):
                del self.state.commands[index]
                self._parse_keyword(word.value or "")
                return word.value or ""
            else:
                if "[" in word.raw and _OPEN_SUBSCRIPT.match(word.raw):
                    self.state.add_ambiguity("a subscript spans several words in one shell")
                command.words.append(word)
                if (
                    command.words[0].value in _DECLARING
                    and word.raw.endswith("=")
                    and self.text.startswith("(", self.pos)
                ):
                    self._skip_array()
        return ""

    def _parse_redirect(self, command: ShellCommand) -> bool:
        match = _REDIRECT.match(self.text, self.pos)
        if match is None:
            return False
        operator = match[2] or match[3]
        if len(match[1] or "") > 1:
            self.state.add_ambiguity("a file descriptor of more than one digit is an argument to some shells")
        self.pos = match.end()
        self.skip_blanks()
        word = self.read_word()
        redirect = Redirection(operator, word)
        if operator in (">&", "<&") and not re.fullmatch(r"[\w./-]+", word.raw):
            self.state.add_ambiguity("bash expands what follows `>&` twice, quotes or not")
        command.redirects.append(redirect)
        if operator in ("<<", "<<-"):
            if word.unexpanded is None or "$" in word.raw or "`" in word.raw:
                raise ScriptUnparsable("the end of a here-document cannot be determined")
            redirect.word = UNKNOWN_WORD
            self.pending.append((redirect, word.unexpanded, word.quoted, operator == "<<-"))
        return True

    def _add_assignment(self, command: ShellCommand, match: re.Match[str], word: ShellWord) -> None:
        if len(_join_continued_lines(word.raw)) == match.end() and self.text.startswith("(", self.pos):
            self._skip_array()
            command.assignments.append((match[1], UNKNOWN_WORD))
            return
        value = (
            word.unexpanded[match.end() :]
            if word.unexpanded is not None and len(word.unexpanded) >= match.end()
            else None
        )
        command.assignments.append((match[1], ShellWord(value, word.raw, "", value, True)))

    def _skip_array(self) -> None:
        self.pos += 1
        while True:
            self.skip_blanks()
            char = self.text[self.pos : self.pos + 1]
            if char == ")":
                self.pos += 1
                if self.text[self.pos : self.pos + 1] not in ("", " ", "\t", "\n", ";", "&", "|", ")"):
                    raise ScriptUnparsable("text follows the end of a list of values without a separator")
                return
            if char == "\n":
                self.skip_newline()
            else:
                self.read_word()  # raises at the end of the text

    def _parse_function_head(self, command: ShellCommand) -> None:
        """Parse the parentheses of `name()`. The function's body follows, and is parsed as if it ran here."""
        self.pos += 1
        self.skip_blanks()
        if len(command.words) != 1 or command.assignments or not self.text.startswith(")", self.pos):
            raise ScriptUnparsable("a parenthesis is where no shell expects it")
        self.pos += 1
        command.words.clear()

    def _parse_keyword(self, name: str) -> None:
        match name:
            case "for" | "select":
                self._parse_for()
            case "case":
                self._parse_case()
            case "function":
                self.skip_blanks()
                self.read_word()
                self.skip_blanks()
                if re.compile(r"\(\s*\)").match(self.text, self.pos):
                    self.pos = self.text.index(")", self.pos) + 1
            case "time":
                self.skip_blanks()
                while match := re.compile(r"-(?:p|-)(?=[\s\\])").match(self.text, self.pos):
                    self.pos = match.end()
                    self.skip_blanks()
            case "[[":
                self._parse_test()

    def _skip_lines(self) -> None:
        self.skip_blanks()
        while self.text.startswith("\n", self.pos):
            self.skip_newline()
            self.skip_blanks()

    def _parse_for(self) -> None:
        self.skip_blanks()
        if self.text.startswith("((", self.pos):
            if not self._read_arithmetic(self.pos + 2):
                raise ScriptUnparsable("a loop's arithmetic is not closed")
            return
        self.read_word()
        self._skip_lines()
        if not re.compile(r"in(?=[\s;])").match(self.text, self.pos):
            return
        self.pos += 2
        while True:
            self.skip_blanks()
            if self.text[self.pos : self.pos + 1] in ("", "\n", ";", "&"):
                return
            self.read_word()

    def _parse_case(self) -> None:
        self.skip_blanks()
        self.read_word()
        self._skip_lines()
        if self.read_word().raw != "in":
            raise ScriptUnparsable("a case has no `in`")
        if self.depth >= 20:
            raise ScriptUnparsable("it is nested too deeply")
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
                self.read_word()
                self.skip_blanks()
                if not self.text.startswith("|", self.pos):
                    break
                self.pos += 1
            if not self.text.startswith(")", self.pos):
                raise ScriptUnparsable("a pattern of a case is not closed")
            self.pos += 1
            if self.parse_commands(";;") == "esac":
                break
        self.depth -= 1

    def _parse_test(self) -> None:
        """Parse `[[ … ]]`: a test in bash; in other shells a command that more commands may follow."""
        operand: list[ShellWord] | None = None
        while True:
            before = self.pos
            self._skip_lines()
            if "\n" in self.text[before : self.pos]:
                self.state.add_ambiguity("a test over several lines is several commands to some shells")
            char = self.text[self.pos : self.pos + 1]
            if not char:
                raise ScriptUnparsable("a `[[` is not closed")
            if self.text.startswith(("&&", "||"), self.pos):
                self._add_test_command(operand)
                operand = []
                self.pos += 2
            elif char in "<>()" and not self.text.startswith(("<(", ">("), self.pos):
                self._note_test_operator(operand)
                self.pos += 1
            elif char in ";|&":
                self._note_test_operator(operand)
                self._add_test_command(operand)
                return  # not a test: the rest is parsed as commands
            else:
                word = self.read_word()
                if word.value == "=~":
                    self._skip_regex()
                if operand is not None:
                    operand.append(word)
                if word.value == "]]" and not word.quoted:
                    self._add_test_command(operand)
                    return

    def _note_test_operator(self, operand: list[ShellWord] | None) -> None:
        if operand is not None:
            self.state.add_ambiguity(
                "some shells read an operator in a test as a redirection or as the start of a command"
            )

    def _add_test_command(self, operand: list[ShellWord] | None) -> None:
        if operand and not (operand[0].value or "").startswith(("-", "!")):
            self.state.commands.append(ShellCommand(operand, [], [], "&&", self.depth))

    def _skip_regex(self) -> None:
        self.skip_blanks()
        while self.text[self.pos : self.pos + 1] not in ("", " ", "\t", "\n"):
            if self.text[self.pos] in "()|<>&;":
                if self.text[self.pos] in "|&;":
                    self.state.add_ambiguity("some shells read a regular expression as commands")
                self.pos += 1
            else:
                self.read_word()


def _join_continued_lines(raw: str) -> str:
    """Remove line continuations, also inside quotes, which does not matter to the callers."""
    return raw.replace("\\\n", "") if "\n" in raw else raw


def _is_keyword(word: ShellWord) -> bool:
    return not word.quoted and word.value in _KEYWORDS
