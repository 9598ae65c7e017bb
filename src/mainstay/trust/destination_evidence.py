"""Evidence that a call does what the user asked for, although the user did not write its destination literally.

- A record of the user's own data (`untrusted=False`) that the user named: "write to Mark", and the address book has
  Mark's address.
- The id of a record that the user named, in an action that the user asked for: "move the dentist to Monday", and event
  5 is titled "Dentist".
- Someone who can read everything already that was read here (`readers`), in a message that the user asked for: "reply
  that I can come".
- A link in public content that was read before anything private, for a call that only reads: the next page of a manual.
- No destination at all, in an action that the user asked for with these words: "create an event 'Lunch'".

None of these depends on what the model says. Names in records of others cannot be trusted, so a record of others only
gives its own id, which the service assigned, and only if no other record has the same name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cached_property

from mainstay.core.tool_ports import has_third_party_text
from mainstay.trust.named_destinations import contains_link, is_source_mention
from mainstay.trust.record_names import find_people, name_records
from mainstay.trust.request_vocabulary import ORDINARY, can_name
from mainstay.trust.requested_actions import (
    REMOVAL_FAMILY,
    STRICT_ACTIONS,
    find_tool_action,
    is_reply_requested,
    iterate_requests,
    names_group,
    refers_to_people,
    refers_to_things,
    tool_nouns,
    words_of,
)
from mainstay.trust.seen_content import ResultRecord, SeenContent, SeenResult, normalise_reader
from mainstay.trust.tool_invocation import ToolInvocation, iterate_texts
from mainstay.trust.user_statements import is_negated

_ID_CHARS_MAX = 64
_STEM_LETTERS = 5
_TEXT_CHARS_MAX = 4_000  # of a user's text, in which names are looked for
_ARGUMENT_CHARS_MAX = 60  # a longer first text of a call is content, which users do not dictate
# neighbours of a word with a capital letter belong to the same name; a word that begins a sentence does not
_WORD_BEFORE = re.compile(r"(?<=[^\W_] )([A-ZÄÖÜÉ][^\W_]+) $")
_WORD_AFTER = re.compile(r" ([A-ZÄÖÜÉ][^\W_]+)")


class DestinationEvidence:
    """The evidence for one call. `request_texts` is what the user wrote in this turn, `user_texts` also before;
    `has_other_destination`: the call has another destination, for which there must be evidence, too."""

    def __init__(
        self,
        call: ToolInvocation,
        seen: SeenContent,
        request_texts: Sequence[str],
        user_texts: Sequence[str],
        *,
        has_other_destination: bool = False,
    ) -> None:
        self._call = call
        self._seen = seen
        self._records = list(seen.records())
        self._texts = request_texts
        # `send it to her`: she was named before
        self._naming_texts = user_texts if refers_to_people(request_texts) else request_texts
        self._earlier_texts = user_texts[: len(user_texts) - len(request_texts)]
        self._has_other_destination = has_other_destination

    @cached_property
    def _user_words(self) -> frozenset[str]:
        return _recipient_words([text[:_TEXT_CHARS_MAX] for text in self._naming_texts])

    def supports(self, destination: str, *, follows_links: bool) -> bool:
        """Return True if the destination may be reached unasked. `follows_links`: the call only reads what is"
        " there."""
        return (
            self._is_in_named_record(destination)
            or self._is_id_of_named_record(destination)
            or self._is_in_named_group(destination)
            or self._is_named_person(destination)
            or self._is_own_object(destination)
            or (follows_links and self._is_public_link(destination))
            or self._could_read_already(destination)
        )

    def supports_action(self) -> bool:
        """Return True if the user asked for this action, which has no destination, in the words of its arguments."""
        call = self._call
        if has_third_party_text(call.tool) or not self._texts:
            return False
        if find_tool_action(call.tool.name) in STRICT_ACTIONS:
            return False
        said = {word for text in (*self._texts, *self._earlier_texts[-1:]) for word in words_of(text)}
        values = [value for value in call.arguments_by_name.values() if value is not None]
        texts = [value for value in values if isinstance(value, str) and value.strip()]
        if texts:
            stems = {word[:_STEM_LETTERS] for word in said}
            short = [text for text in texts if len(text) <= _ARGUMENT_CHARS_MAX]
            return texts[0] in short and _is_mostly_said(texts[0], stems) and _is_mostly_said(" ".join(short), stems)
        if tool_nouns(call.tool.name).isdisjoint(said):
            return False
        return all(word in said for text in iterate_texts(values) for word in words_of(text))

    # --- records -----------------------------------------------------------------------------------

    def _is_in_named_record(self, destination: str) -> bool:
        """Return True if a record of the user's own data contains the destination, and the user named that record and
        no other: by a whole field of it, or by a part of a name."""
        wanted = normalise_reader(destination)
        records = [
            (record, result) for record, result in self._records if result.is_trusted and wanted not in result.input
        ]
        holders = [(record, result) for record, result in records if wanted in record.values]
        if not holders:
            return False
        said = {word for text in self._naming_texts for word in words_of(text)}
        for record, result in holders:
            is_whole_list = not result.arguments  # the arguments of a search decide which namesakes it returns
            for text in record.texts:
                words = [word for word in words_of(text) if can_name(word)]
                named = [word for word in words if word in self._user_words]
                if not named or not (
                    said.issuperset(words) or (is_whole_list and self._is_part_of_name(named, record))
                ):
                    continue
                others = [
                    other for other, source in records if source.tool is result.tool and wanted not in other.values
                ]
                if not any(other.words.issuperset(named) for other in others):
                    return True
        return False

    def _is_part_of_name(self, named: Sequence[str], record: ResultRecord) -> bool:
        """Return True if the words stand in the user's text as a name of their own, not as a part of another one."""
        own = record.words
        return len(record.texts) > 1 and any(
            _stands_alone(text, word, own) for text in self._naming_texts for word in named
        )

    def _is_id_of_named_record(self, destination: str) -> bool:
        """Return True if the destination is the id of the one record that a request for this action names."""
        if not 0 < len(destination) <= _ID_CHARS_MAX or "@" in destination or "://" in destination:
            return False
        if has_third_party_text(self._call.tool):
            return False
        return destination in self._named_ids

    @cached_property
    def _named_ids(self) -> frozenset[str]:
        action = find_tool_action(self._call.tool.name)
        records = [
            record
            for record, result in self._records
            if record.id and self._is_of_same_kind(result) and (result.is_trusted or action != "pay")
        ]
        return self._find_named_ids(records, action) if records else frozenset()

    def _find_named_ids(self, records: Sequence[ResultRecord], action: str) -> frozenset[str]:
        """Return the ids of the records that the request names: in the clauses that ask for this action; if these name
        none, elsewhere in the request; if that refers to something named before (`forward it`), in an earlier one."""
        clauses = list(iterate_requests(action, self._texts))
        for clause in clauses:
            part = clause.text[clause.start : clause.end]
            if named := name_records(records, part, action):
                return named
        if action in STRICT_ACTIONS and not any(clause.refers_back for clause in clauses):
            return frozenset()
        whole = name_records(records, "\n".join(self._texts), action)
        if not whole and (refers_to_things(self._texts) or refers_to_people(self._texts)):
            earlier = (name_records(records, text, action) for text in reversed(self._earlier_texts))
            whole = next((named for named in earlier if named), frozenset())
        return whole if action not in STRICT_ACTIONS or len(whole) == 1 else frozenset()

    def _is_of_same_kind(self, result: SeenResult) -> bool:
        """Return True if the tool of this call and the tool of the result are about the same kind of thing: event 5 is
        not file 5."""
        return not tool_nouns(_tool_name(result)).isdisjoint(tool_nouns(self._call.tool.name))

    def _is_named_person(self, destination: str) -> bool:
        """Return True for the address of the person whom a request names as the recipient, if only one address of all
        that was read fits the name."""
        if "@" not in destination or find_tool_action(self._call.tool.name) in STRICT_ACTIONS:
            return False
        wanted = normalise_reader(destination)
        if any(wanted in result.input for result in self._seen.results):
            return False
        records = [record for record, _ in self._records]
        if any(
            record.values.isdisjoint((wanted,)) and not record.words.isdisjoint(words_of(wanted.partition("@")[0]))
            for record, result in self._records
            if result.is_trusted and any("@" in value for value in record.values)
        ):
            return False  # the user's own data has another address for that name
        if not any(wanted in record.values for record in records):
            return False
        parts = [clause.text[clause.start : clause.end] for clause in iterate_requests("send", self._texts)]
        if refers_to_people(parts):
            parts.append("\n".join(self._naming_texts))
        return any(wanted in find_people(records, part) for part in parts)

    def _is_own_object(self, destination: str) -> bool:
        """Return True for what a call of this turn created: the id that it returned. Messages and payments are exempt,
        unless another argument says where they go."""
        action = find_tool_action(self._call.tool.name)
        if action in STRICT_ACTIONS or (action == "send" and not self._has_other_destination):
            return False
        if not self._texts or "@" in destination or "://" in destination:
            return False
        return any(
            (record.id == destination or destination in record.texts) and destination.casefold() not in result.input
            for record, result in self._records
            if result.is_own_action and self._is_of_same_kind(result)
        )

    def _is_in_named_group(self, destination: str) -> bool:
        """Return True for one of the people of a record that a request names: `send it to all participants of …`."""
        wanted = normalise_reader(destination)
        records = [record for record, result in self._records if record.id and wanted not in result.input]
        if not any(wanted in record.values for record in records):
            return False
        for action in dict.fromkeys(("send", find_tool_action(self._call.tool.name))):
            for clause in iterate_requests(action, self._texts):
                part = clause.text[clause.start : clause.end]
                named = name_records(records, part, REMOVAL_FAMILY) if names_group(part) else frozenset()
                if len(named) == 1 and any(record.id in named and wanted in record.values for record in records):
                    return True
        return False

    # --- readers and links -------------------------------------------------------------------------

    def _could_read_already(self, destination: str) -> bool:
        sets = self._seen.reader_sets
        reader = normalise_reader(destination)
        if not sets or not all(reader in readers for readers in sets):
            return False
        actions = dict.fromkeys(("send", find_tool_action(self._call.tool.name)))
        return is_reply_requested(frozenset(words_of(destination)), self._texts, tuple(actions))

    def _is_public_link(self, destination: str) -> bool:
        return any(contains_link(destination, result.content) for result in self._seen.public_results)


def _is_mostly_said(text: str, stems: Set[str]) -> bool:
    """Return True if at least half of the words of a text, dates and numbers apart, are the user's."""
    words = [word[:_STEM_LETTERS] for word in words_of(text) if word not in ORDINARY and not word.isdecimal()]
    return 0 < len(words) <= 2 * sum(word in stems for word in words)


def _tool_name(result: SeenResult) -> str:
    return result.tool.name if result.tool is not None else ""


def _recipient_words(texts: Sequence[str]) -> frozenset[str]:
    """Return the words by which the user may name a recipient: no ordinary ones, not negated, not as the source."""
    found = set()
    for text in texts:
        for match in re.finditer(r"[^\W_]+", text):
            word = match[0].casefold()
            if word in found or not can_name(word):
                continue
            if not is_negated(text, *match.span()) and not is_source_mention(text, *match.span()):
                found.add(word)
    return frozenset(found)


def _stands_alone(text: str, word: str, own: frozenset[str]) -> bool:
    for found in re.finditer(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text, re.IGNORECASE):
        before, after = _WORD_BEFORE.search(text, 0, found.start()), _WORD_AFTER.match(text, found.end())
        neighbours = [match[1] for match in (before, after) if match is not None]
        if all(neighbour.casefold() in own for neighbour in neighbours):
            return True
    return False
