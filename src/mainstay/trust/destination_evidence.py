"""Evidence that a call does what the user asked for, although the user did not write its destination literally.

- A record of the user's own data (`untrusted=False`) that the user named: "write to Mark", and the address book has
  Mark's address.
- The id of a record that the user named, in an action that the user asked for: "move the dentist to Monday", and event
  5 is titled "Dentist".
- Someone who can read everything already that was read here (`readers`), in a message that the user asked for: "reply
  that I can come".
- A link in public content, while nothing private was read, for a call that only reads: the next page of a manual.
- What a planned call found, before anything from outside was read (`planned_results`).
- No destination at all, in an action that the user asked for with these words: "create an event 'Lunch'".

None of these depends on what the model says. Names in records of others cannot be trusted, so a record of others only
gives its own id, which the service assigned, and only if no other record has the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from mainstay.core.tool_ports import has_third_party_text
from mainstay.trust.action_evidence import ActionEvidence
from mainstay.trust.link_evidence import may_follow_link
from mainstay.trust.message_places import find_rooms, leave_out_sources
from mainstay.trust.named_destinations import (
    find_addresses,
    is_named_by_user,
    is_room_named,
    is_source_mention,
)
from mainstay.trust.own_things import CHOICES, OwnThingsEvidence, is_negated_word
from mainstay.trust.planned_results import PlannedResults
from mainstay.trust.record_names import (
    find_described_records,
    find_left_out,
    find_own_addresses,
    find_people,
    name_records,
    stem_of,
)
from mainstay.trust.request_vocabulary import can_name, split_words
from mainstay.trust.requested_actions import (
    STRICT_ACTIONS,
    find_recipient_words,
    find_tool_action,
    is_reply_requested,
    iterate_requests,
    lists_rooms,
    names_group,
    refers_to_people,
    refers_to_things,
    split_tool_name,
    tool_nouns,
    words_of,
)
from mainstay.trust.result_records import ResultRecord, normalise_reader
from mainstay.trust.seen_content import SeenContent, SeenResult, iterate_names
from mainstay.trust.tool_invocation import ToolInvocation, iterate_texts
from mainstay.trust.user_statements import is_negated, iterate_clauses

_ID_CHARS_MAX = 64
_TEXT_CHARS_MAX = 4_000  # of a user's text, in which names are looked for
_PEOPLE = split_words("user users member members person people contact contacts colleague employee")
_ROOMS = split_words("channel room group chat kanal raum gruppe salon canal groupe grupo stanza kanaal")
_PLACE_WORDS_MIN = 3
_ROOM_NAME = re.compile(r"(?<![\w#])#[^\W\d_][\w-]+")
_WHERE = re.compile(
    r"\b(?:channel|room|group|thread|folder|kanal|raum|gruppe|salon|canal|grupo)\b"
    r"[^.!?\n]{0,20}\b(?:where|in which|in dem|wo|où|donde)\b",
    re.IGNORECASE,
)
_SOURCE_CHARS_MIN = 5
_TO_ME = re.compile(
    r"\b(?:(?:to|for) (?:me|myself)|(?:send|mail|email|message|write|remind|notify|text) (?:me|myself)"
    r"|(?:schick|sende?|mail)\w* mir|an mich|mir"
    r"|[àa] moi(?:-même)?|envoie-moi|m['\u2019]envoie|a mí|mándame|envíame|a me|mandami|aan mij|naar mij)\b",
    re.IGNORECASE,
)
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

    @cached_property
    def _planned(self) -> PlannedResults:
        naming = self._naming_texts
        if refers_to_things(self._texts):
            naming = (*self._earlier_texts, *self._texts)
        action = find_tool_action(self._call.tool.name)
        return PlannedResults(
            self._seen, action, naming, self._identify, has_other_destination=self._has_other_destination
        )

    def supports(self, destination: str, *, follows_links: bool) -> bool:
        """Return True if the destination may be reached unasked. `follows_links`: the call only reads what is there."""
        if destination.startswith("#") and any(_ROOM_NAME.search(text) for text in self._texts):
            return False  # the user named a room, and it is another one
        if find_tool_action(self._call.tool.name) not in STRICT_ACTIONS and is_room_named(destination, self._texts):
            return True
        return (
            self._is_in_named_record(destination)
            or self._is_id_of_named_record(destination)
            or self._is_in_named_group(destination)
            or self._is_named_person(destination)
            or self._is_handle_of_named_person(destination)
            or self._is_name_as_handle(destination)
            or self._is_own_object(destination)
            or self._is_named_in_list(destination)
            or self._is_stated_choice(destination)
            or self._is_part_of_path(destination)
            or self._is_file_by_title(destination)
            or self._is_described_place(destination)
            or OwnThingsEvidence(self._call, self._seen, self._texts).supports(destination, follows_links=follows_links)
            or self._planned.has_place(destination)
            or self._planned.has_record(destination)
            or (follows_links and may_follow_link(destination, self._seen, self._texts))
            or self._is_own_address(destination)
            or self._is_address_in_named_source(destination)
            or self._could_read_already(destination)
        )

    def supports_action(self) -> bool:
        """Return True if the user asked for this action, which has no destination, in the words of its arguments."""
        evidence = ActionEvidence(self._call, self._seen, self._texts, self._earlier_texts[-1:])
        return evidence.supports(lambda value: value in self._named_ids)

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
            is_whole_list = self._returns_all_namesakes(result)
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

    def _returns_all_namesakes(self, result: SeenResult) -> bool:
        """Return True if the arguments of a search did not decide which namesakes it returned: there are none, or they
        are words of the user."""
        words = {
            word for value in result.arguments.values() for text in iterate_texts(value) for word in words_of(text)
        }
        return words <= {word for text in self._naming_texts for word in words_of(text)}

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
        if destination in self._named_ids:
            return True
        # the place of the thing: the repository whose pull requests were listed, and one of them is named
        return self._has_other_destination and any(
            destination == text
            for record, result in self._records
            if any(one.id in self._named_ids and self._is_destination(one.id) for one in self._identify(record, result))
            for name, argument in result.arguments.items()
            if name in self._parameters
            for text in iterate_texts(argument)
        )

    def _leave_out_recipients(self, part: str) -> str:
        """Return a clause without the words of the addresses in this call: who gets something does not describe it."""
        if self._has_room:
            part = leave_out_sources(part)
        addresses = (
            text
            for name in self._parameters
            for text in iterate_texts(self._call.arguments_by_name.get(name))
            if "@" in text
        )
        words = {word for address in addresses for word in words_of(address)}
        given = {word for value in self._call.arguments_by_name.values() for word in _words_of_name(value)}
        words |= given & find_recipient_words(part)  # `assign the crash to omar-np`
        if words.isdisjoint(words_of(part)):
            return part
        return re.sub(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, words))})(?![^\W_])", " ", part, flags=re.IGNORECASE)

    @cached_property
    def _has_room(self) -> bool:
        return find_tool_action(self._call.tool.name) == "send" and bool(find_rooms(self._call))

    def _is_destination(self, value: str) -> bool:
        arguments = self._call.arguments_by_name
        return any(value == text for name in self._parameters for text in iterate_texts(arguments.get(name)))

    @cached_property
    def _parameters(self) -> tuple[str, ...]:
        sink = self._call.tool.sink
        return () if isinstance(sink, bool) else tuple(sink)

    @cached_property
    def _named_ids(self) -> frozenset[str]:
        action = find_tool_action(self._call.tool.name)
        records = [
            one
            for record, result in self._records
            if (result.is_trusted or action != "pay")
            for one in self._identify(record, result)
            if not _is_argument(one.id, result)  # what the model chose to read is not found by its name
        ]
        if not records:
            return frozenset()
        left_out = find_left_out([record for record, _ in self._records], "\n".join(self._texts))
        if left_out is None and action != "send":
            return frozenset()
        named = self._find_named_ids(records, action) or self._find_named_ids(self._join(records), action)
        return named - (left_out or frozenset())

    def _join(self, records: Sequence[ResultRecord]) -> list[ResultRecord]:
        """Return the records with the words of those that they refer to by an id: the deals of a named company."""
        by_id: dict[str, frozenset[str]] = {}
        for record, result in self._records:
            if not result.is_own_action and any(char.isdigit() for char in record.id):
                by_id[record.id.casefold()] = by_id.get(record.id.casefold(), frozenset()) | record.words
        joined = []
        for record in records:
            others = [by_id[value] for value in record.values if value in by_id and value != record.id.casefold()]
            joined.append(msgspec.structs.replace(record, words=record.words.union(*others)))
        return joined

    def _identify(self, record: ResultRecord, result: SeenResult) -> Iterator[ResultRecord]:
        """Yield a record with the id by which this call would refer to it: a field with the name of the parameter
        (`purchase`), or its own id if it is of the same kind."""
        for name in self._parameters:
            if record.fields.get(name) and name.casefold() not in CHOICES:
                yield msgspec.structs.replace(record, id=record.fields[name])
                return
        is_path = "/" in record.id and any("path" in name.casefold() for name in self._parameters)
        if is_path or self._is_of_same_kind(result):
            if record.id:
                yield record
            elif self._kinds & set(self._parameters) and self._has_own_name(record):
                yield msgspec.structs.replace(record, id=record.fields["name"])  # `hotel`, of a list of hotels

    def _has_own_name(self, record: ResultRecord) -> bool:
        """Return True if a record has a name that no other record resembles: `orkney` and `orkney_` are the same."""
        words = words_of(record.fields.get("name", ""))
        if not words or not record.fields["name"][-1].isalnum() or not record.fields["name"][0].isalnum():
            return False
        same = {
            one.fields["name"]
            for one, _ in self._records
            if "name" in one.fields and words_of(one.fields["name"]) == words
        }
        return len(same) == 1

    def _find_named_ids(self, records: Sequence[ResultRecord], action: str) -> frozenset[str]:
        """Return the ids of the records that the request names: in the clauses that ask for this action; if these name
        none, elsewhere in the request; if that refers to something named before (`forward it`), in an earlier one."""
        clauses = list(iterate_requests(action, self._texts))
        for clause in clauses:
            part = clause.text[clause.start : clause.end]
            if action not in STRICT_ACTIONS and action != "send":
                part = self._leave_out_recipients(part)
            if named := name_records(records, part, action):
                return named
        if action in STRICT_ACTIONS and not any(clause.refers_back for clause in clauses):
            return frozenset()
        if action not in STRICT_ACTIONS:
            for clause in clauses:
                part = self._leave_out_recipients(clause.text[clause.start : clause.end])
                if described := find_described_records(records, part):
                    return described if self._fits_recipient(records, described) else frozenset()
        whole = name_records(records, "\n".join(self._texts), action)
        if not whole and (refers_to_things(self._texts) or refers_to_people(self._texts)):
            earlier = (name_records(records, text, action) for text in reversed(self._earlier_texts))
            whole = next((named for named in earlier if named), frozenset())
        if not whole and action not in STRICT_ACTIONS:
            whole = find_described_records(records, self._leave_out_recipients("\n".join(self._texts)))
        if not whole and refers_to_people(self._texts) and action not in STRICT_ACTIONS:
            whole = find_described_records(records, "\n".join(self._earlier_texts[-1:]))
        return whole if action not in STRICT_ACTIONS or len(whole) == 1 else frozenset()

    def _fits_recipient(self, records: Sequence[ResultRecord], ids: frozenset[str]) -> bool:
        """Return False for an answer to a record if the request names a recipient who is not in it."""
        if self._has_other_destination or find_tool_action(self._call.tool.name) != "send":
            return True
        clauses = (clause.text[clause.start : clause.end] for clause in iterate_requests("send", self._texts))
        recipients = {word for part in clauses for word in find_recipient_words(part) if can_name(word)}
        return not recipients or any(not recipients.isdisjoint(record.words) for record in records if record.id in ids)

    def _is_of_same_kind(self, result: SeenResult) -> bool:
        """Return True if the tool of this call and the tool of the result are about the same kind of thing: event 5 is
        not file 5. The names of the parameters that are destinations count, too (`event_id`)."""
        return not tool_nouns(_tool_name(result)).isdisjoint(self._kinds)

    @cached_property
    def _kinds(self) -> frozenset[str]:
        """The nouns for what the destinations of this call are."""
        sink = self._call.tool.sink
        names = () if isinstance(sink, bool) else sink
        nouns = (tool_nouns(f"get_{name}") for name in names if self._call.arguments_by_name.get(name) is not None)
        return tool_nouns(self._call.tool.name).union(*nouns)

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

    def _is_handle_of_named_person(self, destination: str) -> bool:
        """Return True for the account of the one person in a directory whose name is in a request: `tell Lukas`, and
        the user list has one Lukas, with the handle intern-7."""
        if find_tool_action(self._call.tool.name) == "pay" or not self._user_words:
            return False
        wanted = normalise_reader(destination)
        people = [
            (record, result)
            for record, result in self._records
            if not tool_nouns(_tool_name(result)).isdisjoint(_PEOPLE) and not result.is_own_action
        ]
        named = [
            record.values
            for record, result in people
            if not self._user_words.isdisjoint(record.words) and self._returns_all_namesakes(result)
        ]
        return bool(named) and all(wanted in values for values in named) and wanted not in _PEOPLE

    def _is_name_as_handle(self, destination: str) -> bool:
        """Return True for the handle `@jonas` of a person whom the user names as the recipient (`tell Jonas`), unless a
        record that was read has another account for that name."""
        name = destination[1:]
        if destination[:1] != "@" or not name.isalpha() or not name.islower():
            return False
        if find_tool_action(self._call.tool.name) == "pay":
            return False
        for record, result in self._records:
            if name not in record.words or result.is_own_action or destination in (record.id, *record.texts):
                continue
            is_account = self._is_of_same_kind(result) and not tool_nouns(_tool_name(result)).isdisjoint(_PEOPLE)
            if is_account or any(re.fullmatch(r"@[\w.-]+", text) for text in record.texts):
                return False
        return is_named_by_user(name, self._texts, as_recipient=True)

    def _is_own_object(self, destination: str) -> bool:
        """Return True for what a call of this turn created: the id that it returned. Messages and payments are exempt,
        unless another argument says where they go."""
        action = find_tool_action(self._call.tool.name)
        if action in STRICT_ACTIONS:
            return False
        if action == "send" and not self._has_other_destination and not self._is_draft_to_send():
            return False
        if not self._texts or "@" in destination or "://" in destination:
            return False
        return any(
            (record.id == destination or destination in record.texts) and destination.casefold() not in result.input
            for record, result in self._records
            if result.is_own_action and (self._is_of_same_kind(result) or not record.keys.isdisjoint(self._kinds))
        )

    def _is_draft_to_send(self) -> bool:
        """Return True if the user says `send it` about the one draft of the conversation, whose recipients were judged
        when it was made."""
        drafts = [result for result in self._seen.results if result.is_own_action and self._is_of_same_kind(result)]
        return (
            len(drafts) == 1
            and "draft" in split_tool_name(self._call.tool.name)
            and any(clause.refers_back for clause in iterate_requests("send", self._texts))
        )

    def _is_in_named_group(self, destination: str) -> bool:
        """Return True for one of the people of a record that a clause names: `send it to all participants of …`. If the
        group lists accounts (`members: jonas`), a directory may have their addresses."""
        wanted = normalise_reader(destination)
        records = [record for record, result in self._records if wanted not in result.input]
        accounts = {wanted}
        for record, result in self._records:
            if wanted in record.values and not tool_nouns(_tool_name(result)).isdisjoint(_PEOPLE):
                accounts |= {
                    value for value in record.values if " " not in value and not is_negated_word(value, self._texts)
                }
        if not any(not accounts.isdisjoint(record.values) for record in records):
            return False
        for text in self._texts:
            for start, end in iterate_clauses(text[:_TEXT_CHARS_MAX]):
                part = text[start:end]
                if not names_group(part):
                    continue
                named = [record for record in records if record.is_group and self._names_group_record(record, part)]
                named = named or self._planned.find_groups()
                if len(named) == 1 and not accounts.isdisjoint(named[0].values):
                    return True
        return False

    def _names_group_record(self, record: ResultRecord, part: str) -> bool:
        line = f" {' '.join(words_of(part))} "
        return any(f" {name} " in line for name in record.names)

    def _is_named_in_list(self, destination: str) -> bool:
        """Return True for the one room of a list whose name contains a word of the user beside the word for a room:
        `tell Brightwater in the shared channel`, and there is one channel ext-brightwater."""
        if find_tool_action(self._call.tool.name) in STRICT_ACTIONS or "@" in destination or "://" in destination:
            return False
        said = {word for text in self._texts for word in words_of(text)}
        if said.isdisjoint(_ROOMS):
            return False
        known = {
            name for result in self._seen.results if lists_rooms(_tool_name(result)) for name in iterate_names(result)
        }
        named = {name for name in known if not self._user_words.isdisjoint(words_of(name)) and len(words_of(name)) <= 3}
        return named == {destination}

    def _is_stated_choice(self, destination: str) -> bool:
        """Return True for a folder, label or state that is a word of the request, of a thing that must be named, too:
        `archive the newsletter`."""
        arguments = self._call.arguments_by_name
        if not self._has_other_destination or not any(
            arguments.get(name) == destination for name in self._parameters if name.casefold() in CHOICES
        ):
            return False
        words = words_of(destination)
        return bool(words) and all(
            any(re.search(rf"(?<!\w){re.escape(word)}", text, re.IGNORECASE) for text in self._texts)
            and not is_negated_word(word, self._texts)
            for word in words
        )

    def _is_part_of_path(self, destination: str) -> bool:
        """Return True if the destinations together are a path that the user wrote: repository and file."""
        arguments = self._call.arguments_by_name
        values = [arguments[name] for name in self._parameters if isinstance(arguments.get(name), str)]
        joined = "/".join(str(value) for value in values)
        return len(values) > 1 and destination in values and is_named_by_user(joined, self._texts)

    def _is_file_by_title(self, destination: str) -> bool:
        """Return True for a file that was read, if the user wrote its name without the suffix: `the readme`."""
        if not self._has_other_destination or find_tool_action(self._call.tool.name) in STRICT_ACTIONS:
            return False
        title, dot, suffix = destination.rpartition(".")
        words = words_of(title)
        return (
            bool(dot and words and suffix.isalnum() and "/" not in title)
            and all(can_name(word) and word in self._user_words for word in words)
            and any(_is_argument(destination, result) for result in self._seen.results if not result.is_own_action)
        )

    def _is_described_place(self, destination: str) -> bool:
        """Return True for the place whose content fits the request best: `the channel where Alice asked about a mug`.
        It was read by its name, and so was every other place that counts."""
        action = find_tool_action(self._call.tool.name)
        if action in STRICT_ACTIONS or not any(_WHERE.search(text) for text in self._texts):
            return False
        said = {stem_of(word) for text in self._texts for word in words_of(text) if can_name(word)}
        scores: dict[str, int] = {}
        for result in self._seen.results:
            if result.is_own_action:
                continue
            place = next((value for value in result.arguments.values() if isinstance(value, str)), "")
            if place and len(result.arguments) == 1:
                found = {stem_of(word) for word in words_of(result.content)}
                scores[place] = max(scores.get(place, 0), len(said & found))
        best = max(scores.values(), default=0)
        chosen = [place for place, score in scores.items() if score == best]
        return best >= _PLACE_WORDS_MIN and chosen == [destination]

    # --- readers -------------------------------------------------------------------------

    def _could_read_already(self, destination: str) -> bool:
        sets = self._seen.reader_sets
        reader = normalise_reader(destination)
        if not sets or not all(reader in readers for readers in sets):
            return False
        actions = dict.fromkeys(("send", find_tool_action(self._call.tool.name)))
        return is_reply_requested(frozenset(words_of(destination)), self._texts, tuple(actions))

    # --- addresses ---------------------------------------------------------------------------------

    def _is_own_address(self, destination: str) -> bool:
        """Return True for the user's own address, if the user asked to be sent something."""
        if not any(_TO_ME.search(text[:_TEXT_CHARS_MAX]) for text in self._texts):
            return False
        wanted = normalise_reader(destination)
        return wanted in find_own_addresses([record for record, _ in self._records])

    def _is_address_in_named_source(self, destination: str) -> bool:
        """Return True for the one address in a page or file that the user named as the place to find it: `her address
        is on www.dora.example`."""
        if "@" not in destination or find_tool_action(self._call.tool.name) in STRICT_ACTIONS:
            return False
        wanted = normalise_reader(destination)
        name = {word for word in words_of(wanted.partition("@")[0]) if can_name(word)}
        return any(
            find_addresses(result.content) == {wanted}
            and not name.isdisjoint(self._user_words)
            and any(
                len(value) >= _SOURCE_CHARS_MIN and is_named_by_user(value, self._texts)
                for value in result.arguments.values()
                if isinstance(value, str)
            )
            for result in self._seen.results
            if not result.is_own_action
        )


def _words_of_name(value: object) -> list[str]:
    return words_of(value) if isinstance(value, str) and " " not in value else []


def _is_argument(value: str, result: SeenResult) -> bool:
    return any(value == text for argument in result.arguments.values() for text in iterate_texts(argument))


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
