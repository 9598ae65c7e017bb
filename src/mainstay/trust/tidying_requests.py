"""What a user asks to be done with files of the workspace without naming each: `sort the downloads`, `delete all logs`.

A request is a clause with a verb that is not negated. Which files it is about is decided by its words: each of them
must describe the file (its name, its folder, its type), or say something that can be checked (its age, that it is
empty).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from mainstay.trust.request_vocabulary import can_name, read_words, split_words
from mainstay.trust.requested_actions import words_of
from mainstay.trust.user_statements import (
    blank_removal_verbs,
    is_negated,
    is_negated_before,
    iterate_clauses,
    iterate_removal_clauses,
)

_TEXT_CHARS_MAX = 4_000  # of a user's text

# nothing is lost by these, if the content of every file is kept
_ARRANGEMENT = re.compile(
    r"\b(?:mov(?:e|ing)|renam(?:e|ing)|(?:re)?sort(?:ing)?|(?:re)?organi[sz](?:e|ing)|(?:re)?arrang(?:e|ing)|tidy(?:ing)?"
    r"|restructur(?:e|ing)|group(?:ing)?|split|collect|gather|fil(?:e|ing)|archiv(?:e|ing)|put|pack|zip|gzip|compress"
    r"|tar|bundle|flatten|merge|combine|convert|relocate|separate|number|prefix|normali[sz]e|lower-?case|mv"
    r"|de-?dup(?:e|licate|ing|licating)?|duplicates?|identical|keep (?:only )?(?:one|the)|clean (?:up|out))\b"
    r"|\b(?:verschieb(?:e|en|t)?|sortier(?:e|en|t)?|ordne|ordnen|benenn(?:e|en)?|umbenenn(?:e|en|t)?|archivier(?:e|en|t)?"
    r"|pack(?:e|en|t)?|leg(?:e|en|t)?|tu|steck(?:e|en|t)?|räum(?:e|en|t)?|aufräum(?:e|en)|komprimier(?:e|en|t)?"
    r"|gruppier(?:e|en|t)?|doppelte[nrs]?|duplikate|identische[nrs]?)\b"
    r"|\b(?:déplac(?:e|er|ez)|rang(?:e|er|ez)|tri(?:e|er|ez)|class(?:e|er|ez)|renomm(?:e|er|ez)|met(?:s|tre|tez)"
    r"|archiv(?:e|er|ez)|regroup(?:e|er|ez)|organis(?:e|er|ez)|compress(?:e|er|ez)|doublons?|identiques?)\b"
    r"|\b(?:muev(?:e|a|as)|mover|ordena(?:r)?|organiza(?:r)?|clasifica(?:r)?|renombr(?:a|ar|e|es)|archiva(?:r)?|pon(?:er)?"
    r"|mete(?:r)?|pasa(?:r)?|agrupa(?:r)?|comprim(?:e|ir)|duplicad[oa]s?|idéntic[oa]s|repetid[oa]s)\b"
    r"|\b(?:sposta(?:re|te)?|ordina(?:re|te)?|organizza(?:re|te)?|rinomina(?:re|te)?|archivia(?:re|te)?|mett(?:i|ere|ete)"
    r"|raggruppa(?:re)?|comprim(?:i|ere)|smista(?:re)?|duplicati|doppioni|identici)\b"
    r"|\b(?:mov(?:a|am|er)|organiz(?:e|ar|a)|orden(?:e|ar|a)|renomei(?:e|a)|renomear|arquiv(?:e|ar|a)|coloc(?:a|ar)|coloque"
    r"|põe|ponha|agrup(?:e|ar|a)|comprim(?:a|ir))\b"
    r"|\b(?:verplaats(?:en)?|sorteer|sorteren|orden(?:en)?|organiseer|hernoem(?:en)?|archiveer|archiveren|zet|stop|groepeer"
    r"|ruim|opruimen|dubbele|identieke)\b",
    re.IGNORECASE,
)
# what brings another state of the repository into its work tree
_REPOSITORY = re.compile(
    r"\b(?:revert(?:ing)?|check(?:ing)? ?out|switch(?:ing)?|merg(?:e|ing)|rebas(?:e|ing)|cherry-?pick|stash|pull|bisect"
    r"|roll(?:ing)? ?back|undo|go(?:ing)? back|reset|restor(?:e|ing)|branch(?:es)?|squash"
    r"|(?:last|latest|previous|letzten?|vorletzten?|derniers?|último|ultimo|laatste)\s(?:\w+\s)?commits?"
    r"|wechsl?e|zurück|zurücksetzen|rückgängig|stell(?:e|en)?|annul(?:e|er|ez)|revien(?:s|ir)|revenir|bascul(?:e|er)|restaur(?:e|er)"
    r"|deshaz|deshacer|reviert(?:e|a)|revertir|vuelve|volver|restaura(?:r)?|annulla(?:re)?|torna(?:re)?|ripristina(?:re)?"
    r"|desfaz(?:er)?|desfaça|reverte(?:r)?|volta(?:r)?|terug|herstel(?:len)?|ongedaan)\b",
    re.IGNORECASE,
)
# a request to give up changes that were not committed; with the file's name, what the first group says is enough
_DISCARD = re.compile(
    r"\b(?:(undo|revert|reset|restore|roll back|put\b.{1,60}\bback|bring\b.{1,60}\bback|zurück(?:setzen)?|rückgängig"
    r"|wiederherstell\w*|annul(?:e|er|ez)|restaur(?:e|er|ez|a|ar)|défai(?:s|re|tes)|deshaz|deshacer|reviert(?:e|a)"
    r"|annulla(?:re)?|ripristina(?:re)?|desfaz(?:er)?|desfaça|reverte(?:r)?|herstel(?:len)?|ongedaan)"
    r"|discard|drop|forget|get rid of|throw(?: away| out)?|lose|trash|scrap|verwirf|verwerfen|verwerfe|wirf"
    r"|schmei(?:ß|ss)"
    r"|jett?e[rz]?|abandonn(?:e|er|ez)|supprim(?:e|er|ez)|descart(?:a|ar|e)|tira(?:r)?|borra(?:r)?|scarta(?:re)?"
    r"|butta(?:re)?|verwerp|gooi)\b",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:changes?|edits?|modifications?|uncommitted|work(?:ing)? (?:tree|copy|directory)|commits?|state"
    r"|version|änderung(?:en)?"
    r"|stand|modifs?|modificaciones|cambios?|estado|versión|modifiche|modifica|stato|alterações|mudanças|wijzigingen|versie"
    r"|HEAD|origin|main|master)\b",
    re.IGNORECASE,
)
# the object is named elsewhere: `delete that one`, `remove the originals`
_BACK_REFERENCE = re.compile(
    r"\b(?:it|them|these|those|both|that|this|that one|this one|the (?:others?|rest|old(?:er|est)?(?: ones?)?"
    r"|originals?"
    r"|cop(?:y|ies)|duplicates?|sources?|first|second|last|small(?:er|est)|larg(?:er|est)|big(?:ger|gest)?"
    r"|new(?:er|est)?|unused)(?: ones?)?)\b(?=\s*(?:[.,!?;:)]|$|please\b|now\b|then\b|again\b|afterwards\b|too\b))"
    r"|\b(?:sie|es|ihn|die (?:alte|andere|älteren|originale|anderen|alten)|das (?:alte|original|andere)"
    r"|den (?:alten|anderen)"
    r"|diese|dieses|diesen|l['\u2019](?:original|ancien|autre)|les (?:originaux|anciens|autres)|celui-là"
    r"|celle-là|ceux-là"
    r"|el (?:original|otro|viejo|antiguo)|la (?:original|otra|vieja|antigua)|los (?:originales|otros|viejos)"
    r"|las (?:originales|otras|viejas)|ese|esa|eso|esos|esas|ést[eoa]s?|l['\u2019](?:originale|altro)"
    r"|gli (?:originali|altri)|quello|quella|quelli|o (?:original|outro)|os (?:originais|outros)|esse|isso"
    r"|het origineel|de (?:originelen|oude|andere)|die|deze)\b(?=\s*(?:[.,!?;:)]|$|bitte\b|por favor\b))"
    r"|\b(?:b[óo]rra|elim[íi]na|qu[íi]ta|mu[ée]ve)l[oae]s?\b",
    re.IGNORECASE,
)
_SINGULAR_REFERENCE = re.compile(
    r"\b(?:it|that|this|one|the (?:other|older|oldest|original|copy|source|first|second|last|smaller|smallest|larger"
    r"|largest|bigger|biggest|newer|newest)|es|ihn|das|den|celui-là|celle-là|el|la|ese|esa|eso|quello|quella|o|esse"
    r"|het)\b|\bl['\u2019]",
    re.IGNORECASE,
)
_PLURAL = re.compile(
    r"\b(?:i|gli|los|las|les|os|all|every|each|any|alle[nr]?|sämtliche|tous|toutes|chaque|todos|todas|cada|tutti|tutte|dateien|ordner|bilder"
    r"|bestanden|immagini|cartelle|mappen|afbeeldingen|protokolle|entwürfe|kopien|sicherungen)\b|\*|(?<![\w/])\.\w"
    r"|[^\W\d]{3,}s(?:\b|(?=_))",
    re.IGNORECASE,
)
_LOCATION = re.compile(
    r"\s(?:in|inside|from|within|under|below|at|of|to|into|aus|im|unter|von|nach|dans|de|du|des|sous|vers|en|del|bajo"
    r"|nel|nella|da|dal|sotto|na|no|do|em|uit|op|van|naar)\s",
    re.IGNORECASE,
)
_PURPOSE = re.compile(
    r"\s(?:because|since|so that|so|to (?:save|free|make|get)|as (?:we|i|they|it)|weil|damit|um|car|parce|pour"
    r"|porque|para|perché"
    r"|omdat)\s",
    re.IGNORECASE,
)
_EVERYTHING = re.compile(r"\b(?:everything|all|alles|tout|todo|tutto|tudo)\b", re.IGNORECASE)
_AGE_LIMIT = re.compile(
    r"\b(\d{1,4}|an?|one|eine[nrms]?|une?|un[oa]?|um[a]?|een)\s+"
    r"(?:(d(?:ay|ía|ia|ag)s?|tag(?:en?)?|jours?|giorn[oi]|dagen)|(weeks?|wochen?|semaines?|semanas?|settiman[ae]|weken)"
    r"|(months?|monat(?:en?)?|mois|mes(?:es)?|mes[ei]|maanden?)|(years?|jahr(?:en?)?|ans?|años?|ann[oi]|anos?|jaar))\b",
    re.IGNORECASE,
)
_AGE_DAYS = (1, 7, 30, 365)
# what can be checked by comparing a file with those that stay
_ORDERS: dict[str, re.Pattern[str]] = {
    order: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for order, words in {
        "oldest": r"old(?:er|est)?|outdated|stale|alt(?:e[nrs]?|ere[nrs]?|este[nrs]?)?|älter(?:e[nrs]?)?|älteste[nrs]?"
        r"|ancien(?:ne)?s?|vieux|vieille?s?|viej[oa]s?|antigu[oa]s?|vecchi[oae]?|antig[oa]s?|velh[oa]s?|oude?(?:re|ste)?",
        "newest": r"newe(?:r|st)|latest|most recent|neue(?:re|ste)[nrs]?|jüngste[nrs]?|récent(?:e)?s?|más"
        " recientes?|più recent[ei]"
        r"|nieuwste",
        "largest": r"large(?:r|st)|big(?:ger|gest)|größte[nrs]?|größere[nrs]?|plus"
        " (?:gros|grand)(?:se|de)?s?|más grandes?"
        r"|più grand[ei]|maior(?:es)?|grootste",
        "smallest": r"small(?:er|est)|kleinste[nrs]?|kleinere[nrs]?|plus petit(?:e)?s?|más pequeñ[oa]s?|più"
        " piccol[oaie]|kleinste",
    }.items()
}
_KEEP_NEWEST = re.compile(
    r"\b(?:keep|leave|behalt(?:e|en)?|gard(?:e|er|ez)|conserv(?:e|er|ez)|guarda|deja|conserva|tieni|mantieni|houd|bewaar)\b"
    r"(?:\s\w+){0,3}?\s(?:newest|latest|last|most recent|neue?ste[nrs]?|letzten?|derni(?:er|ère)s?|plus récent(?:e)?s?"
    r"|últim[oa]s?|más recientes?|ultim[oaie]|più recent[ei]|nieuwste|laatste)\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"\b(?:empty|leere?[nrs]?|vides?|vací[oa]s?|vuot[oaie]|vazi[oa]s?|lege)\b", re.IGNORECASE)
_UNTRACKED = re.compile(
    r"\b(?:untracked|unversioned|not tracked|unversionierte[nrs]?|non suivis|sin seguimiento|non tracciati"
    r"|não rastreados)\b",
    re.IGNORECASE,
)
_TYPES = {
    "png jpg jpeg gif webp svg heic bmp tiff tif ico": "image picture photo pic screenshot bild bilder foto"
    " imagen imágenes"
    " immagine immagini imagem imagens afbeelding afbeeldingen",
    "mp4 mov avi mkv webm": "video clip film vídeo",
    "mp3 wav flac ogg m4a": "audio song recording",
    "zip tar gz tgz bz2 xz 7z rar": "archive zip tarball",
    "tmp temp swp part": "temp tmp temporary scratch temporär temporäre temporaire temporal temporales"
    " temporanei temporários"
    " tijdelijke",
    "bak backup orig old": "backup bak backups sicherung sauvegarde respaldo",
    "log": "log protokoll protokolle registro",
    "csv tsv xls xlsx ods": "spreadsheet table tabelle",
    "pyc pyo o class obj a": "compiled object bytecode",
    "md txt rst": "note text",
}
_NOUN_TYPES: dict[str, frozenset[str]] = {
    noun: frozenset(types.split()) for types, nouns in _TYPES.items() for noun in nouns.split()
}
# what programs create again
REPRODUCIBLE_NAMES = frozenset((
    "__pycache__", "node_modules", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache", ".tox", ".nox", ".coverage",
    "htmlcov", "coverage", ".next", ".nuxt", ".turbo", ".parcel-cache", ".gradle", ".ds_store", "thumbs.db", ".eggs",
    "dist", "build", "target", "out", "cache", ".hypothesis", ".ipynb_checkpoints", ".terraform", "bin", "obj",
))  # fmt: skip
_REPRODUCIBLE_SUFFIXES = (".pyc", ".pyo", ".o", ".class", ".egg-info", ".tsbuildinfo")
_FRESH = re.compile(
    r"\b(?:clean|rebuild|re-?build|from scratch|fresh|reinstall|re-?install|sauber|neu bauen|propre|limpi[ao]"
    r"|pulit[ao])\b",
    re.IGNORECASE,
)
_CLEANING = re.compile(
    r"\b(?:clean(?:ing)?|caches?|build|artifacts?|artefacts?|generated|compiled|output|bytecode|junk|clutter|space"
    r"|node_modules|__pycache__|aufräum(?:en?)?|räum(?:e|t)?|aufgeräumt|nettoie|nettoyer|nettoyez|limpi(?:a|ar|e)|pulisci"
    r"|pulire|limp(?:e|a|ar)|opruimen|ruim)\b",
    re.IGNORECASE,
)
_GENERIC = read_words("tidying_requests_generic")
_SCOPE_OF_ALL = re.compile(
    r"\b(?:files?|folder|directory|everything|here|workspace|project|repo(?:sitory)?|stuff|dateien|ordner|alles|hier|projekt"
    r"|fichiers?|dossier|tout|ici|projet|archivos?|carpeta|todo|aquí|proyecto|cartella|tutto|qui|progetto|arquivos?|pasta"
    r"|tudo|aqui|bestanden|map)\b",
    re.IGNORECASE,
)
_CONJUNCTION_CHARS_MAX = 10
_DETERMINER = re.compile(
    r"(?:the|all|any|my|our|those|these|die|den|das|alle|les|tous|toutes|los|las|todos|todas|gli|os|as|de|het|\*?\.\w+)\s",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"[\w-][\w.-]*\.\w{1,8}")
_MONTHS = split_words("january february march april may june july august september october november december")
# ordinary words that restrict what is meant: `the logs of last week`
_QUALIFIERS = _MONTHS | read_words("tidying_requests_qualifiers")
_PATH_TOKEN = re.compile(r"[^\s\"'`(),;]*[^\s\"'`(),;.:!?]")


class FileDescription(msgspec.Struct, frozen=True):
    """A file of the workspace, as requests describe files."""

    path: str  # relative to the working folder
    size: int = 0
    age_days: float = 0.0
    is_tracked: bool = False  # by git

    @property
    def is_hidden(self) -> bool:
        return any(name.startswith(".") for name in self.path.split("/"))

    @property
    def is_reproducible(self) -> bool:
        names = self.path.casefold().split("/")
        return not REPRODUCIBLE_NAMES.isdisjoint(names) or names[-1].endswith(_REPRODUCIBLE_SUFFIXES)


class RemovalObject(msgspec.Struct, frozen=True):
    """What one clause asks to be removed."""

    clause: str
    words: tuple[str, ...] = ()  # that must describe the file, each of them
    object_words: tuple[str, ...] = ()  # those of them that do not say where the file is
    is_everything: bool = False  # the object is `everything`
    refers_back: bool = False  # it is named elsewhere
    is_singular: bool = False  # of a reference: `that one`
    is_plural: bool = False  # of a description: `the logs`, `all *.bak`
    orders: tuple[str, ...] = ()  # `the oldest`: the files are the first by these orders
    age_days: float | None = None  # `older than 30 days`
    is_empty: bool = False
    is_untracked: bool = False


class TidyingRequest(msgspec.Struct, frozen=True):
    """What the texts of one turn ask for."""

    removals: tuple[RemovalObject, ...] = ()
    arranges: bool = False  # move, rename, sort, archive, remove duplicates
    uses_repository: bool = False
    cleans: bool = False  # caches, build output
    words: frozenset[str] = frozenset()  # of all texts, that may describe files
    files: frozenset[str] = frozenset()  # names of files in all texts, as they are written there
    has_scope_of_all: bool = False
    orders: tuple[str, ...] = ()

    @property
    def removes_files(self) -> bool:
        return bool(self.removals) or self.arranges or self.cleans


@lru_cache(maxsize=64)
def parse_tidying_request(texts: tuple[str, ...]) -> TidyingRequest:
    """Return what the user's texts of a turn ask for."""
    texts = tuple(text[:_TEXT_CHARS_MAX] for text in texts)
    removals = tuple(removal for text in texts for removal in _iterate_removals(text))
    whole = "\n".join(texts)
    is_cleaning = any(_CLEANING.search(removal.clause) for removal in removals)
    return TidyingRequest(
        removals=removals,
        arranges=any(_has_request(_ARRANGEMENT, text) for text in texts),
        uses_repository=any(_has_request(_REPOSITORY, text) for text in texts),
        cleans=is_cleaning or any(_has_request(_FRESH, text) for text in texts),
        words=frozenset(word for text in texts for word in _describing_words(text) if not _ARRANGEMENT.fullmatch(word)),
        files=frozenset(_FILE_NAME.findall(whole)),
        has_scope_of_all=_SCOPE_OF_ALL.search(whole) is not None,
        orders=_find_orders(whole),
    )


def _has_request(pattern: re.Pattern[str], text: str) -> bool:
    return any(not is_negated(text, *found.span()) for found in pattern.finditer(text))


def _iterate_removals(text: str) -> Iterator[RemovalObject]:
    for start, end, is_pronoun in iterate_removal_clauses(text):
        removal = _parse_object(text[start:end], is_pronoun=is_pronoun)
        yield removal
        for next_start, next_end in _find_continuations(text, end, is_open=not removal.words and not is_pronoun):
            yield _parse_object(text[next_start:next_end], is_pronoun=False)
    for found in _KEEP_NEWEST.finditer(text):
        if not is_negated(text, *found.span()):
            end = next(end for start, end in iterate_clauses(text) if end >= found.end())
            words = tuple(_describing_words(text[found.end() : end]))
            yield RemovalObject(text[found.start() : end], words, words, is_plural=True, orders=("oldest",))


def _find_continuations(text: str, end: int, *, is_open: bool) -> Iterator[tuple[int, int]]:
    """Yield the clauses after one that continue its object: `delete the pdfs and the images`. `is_open`: it"
    " has none."""
    for start, following in iterate_clauses(text):
        if start > end and start - end < _CONJUNCTION_CHARS_MAX and (is_open or _DETERMINER.match(text, start)):
            yield start, following
            end = following


def _parse_object(clause: str, *, is_pronoun: bool) -> RemovalObject:
    back = _BACK_REFERENCE.search(clause)
    limit = _AGE_LIMIT.search(clause)
    purpose = _PURPOSE.search(clause)
    described = blank_removal_verbs(clause[: purpose.start()] if purpose else clause)
    for pattern in (_EMPTY, _UNTRACKED, _AGE_LIMIT, *_ORDERS.values()):
        described = pattern.sub(" ", described)
    location = _LOCATION.search(described.lstrip())
    return RemovalObject(
        clause=clause,
        words=tuple(dict.fromkeys(_describing_words(described))),
        object_words=tuple(_describing_words(described.lstrip()[: location.start()] if location else described)),
        is_everything=_EVERYTHING.search(described) is not None,
        refers_back=is_pronoun or back is not None,
        is_singular=back is not None and _SINGULAR_REFERENCE.search(back[0]) is not None,
        is_plural=_PLURAL.search(described) is not None,
        orders=_find_orders(clause),
        age_days=_read_age(limit) if limit else None,
        is_empty=_EMPTY.search(clause) is not None,
        is_untracked=_UNTRACKED.search(clause) is not None,
    )


def _find_orders(text: str) -> tuple[str, ...]:
    return tuple(order for order, pattern in _ORDERS.items() if pattern.search(text))


def _read_age(limit: re.Match[str]) -> float:
    count = int(limit[1]) if limit[1].isdecimal() else 1
    unit = next(days for index, days in enumerate(_AGE_DAYS) if limit[index + 2])
    return float(count * unit)


def _describing_words(part: str) -> Iterator[str]:
    """Yield the words of a part that describe files. A folder keeps its slash, the ending of a name its dot; a path
    describes nothing but itself."""
    for token in _PATH_TOKEN.findall(part):
        if ending := re.fullmatch(r"\*?\.(\w{1,8})", token):
            yield f".{ending[1].casefold()}"  # `*.bak`, `.log`
        elif "/" in token or _FILE_NAME.fullmatch(token):
            yield token.removeprefix("./").casefold()
        else:
            for word in (token.casefold(),) if re.fullmatch(r"[\w-]+", token) else words_of(token):
                if word not in _GENERIC and (can_name(word) or word in _QUALIFIERS):
                    yield word


def word_describes(word: str, path: str) -> bool:
    """Return True if a word of a request describes a file: by a word of its name or of a folder above it, or by its
    type."""
    names = path.casefold().split("/")
    stem, _, extension = names[-1].rpartition(".") if "." in names[-1][1:] else (names[-1], "", "")
    if word.startswith("."):
        return word == f".{extension}"
    if "/" in word:
        return f"/{word.strip('/')}/" in f"/{'/'.join(names)}/"
    forms = _singular_forms(word)
    if word in names or word == stem or not forms.isdisjoint(names):
        return True
    parts = {part for name in (*names[:-1], stem) for part in words_of(name.replace("_", " "))}
    if extension:
        parts.add(extension)
    if not forms.isdisjoint(parts) or any(not forms.isdisjoint(_singular_forms(part)) for part in parts):
        return True
    if any(form.startswith("cache") for form in forms) and any("cache" in name for name in names):
        return True
    return any(extension in _NOUN_TYPES.get(form, ()) for form in forms)


def _singular_forms(word: str) -> frozenset[str]:
    forms = {word, word[:3]} if word in _MONTHS else {word}
    if len(word) > 3 and word.endswith("s"):
        forms.add(word[:-1])
        if word.endswith("es"):
            forms.add(word[:-2])
        if word.endswith("ies"):
            forms.add(f"{word[:-3]}y")
    return frozenset(forms)


def is_discard_requested(path: str, *, names_path: bool, texts: Sequence[str]) -> bool:
    """Return True if the user asked for uncommitted changes of a file to be given up (`names_path`: a text names it),
    or for those of all files (path ".") without naming a file."""
    for text in texts:
        for start, end in iterate_clauses(text[:_TEXT_CHARS_MAX]):
            clause = text[start:end]
            found = _DISCARD.search(clause)
            if found is None or is_negated_before(text, start + found.start()):
                continue
            if not _CHANGES.search(clause) and not (names_path and found[1]):
                continue
            if names_path or (path in (".", "./") and not _FILE_NAME.search(text)):
                return True
    return False
