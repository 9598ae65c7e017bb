"""Verbs and phrases by which users ask for actions, and verbs in the names of tools, by family of actions.

The lists are in the folder `words`. Those of other languages are stems with a mark for their endings: `lösch-` is
German or Dutch (`lösche`, `löschen`), `hak-ab` a verb in two parts (`hak die Aufgabe ab`, `abhaken`), `supprim-er`
French, `borr-ar` Spanish, Italian or Portuguese, `escrib-ir` likewise. A word without a mark has no other form. Texts
are compared without accents.
"""

from __future__ import annotations

from mainstay.trust.request_vocabulary import read_sections, read_words, split_words

# English verbs of each family, in users' sentences
ENGLISH_VERBS = read_sections("english_verbs")
# English phrases: where they begin, there may be a verb
ENGLISH_PHRASES = {
    "remove": (
        r"get rid of|(?:throw|take|kick|cross|strike|clean|clear)\b.{0,60}\b(?:off|out|away)\b|call\b.{1,60}\boff\b"
        r"|(?:throw|put|move|toss|drop)\b.{0,60}\b(?:in|into|to) the (?:trash|bin|garbage|recycle bin|rubbish)\b"
        r"|opt out|bin (?:the|that|this|it|them|these|those|my|our|all|both|everything)\b|do away with|blow away"
    ),
    "change": (
        r"send\b.{1,60}\bback\b|(?:tick|check|cross)\b.{1,60}\boff\b|(?:sign|hand) (?:off|over)"
        r"|bring\b.{1,60}\bforward\b|(?:give|grant)\b.{1,60}\b(?:access|rights?|permissions?)\b"
        r"|(?:the )?(?:\w+ )?(?:lights?|lamps?|heating|licht|lampen?|heizung|lumière|luz|luci)\b.{0,30}"
        r"\b(?:on|off|an|aus)\b"
        r"|(?:say|tell \w+) (?:yes|no) to|wrap up|let\b.{1,40}\bedit"
    ),
    "create": (
        r"turn\b.{1,80}\binto\b|(?:give|grant)\b.{1,60}\b(?:access|rights?|permissions?)\b|open (?:a|an|another) "
        r"|leave\b.{0,30}\b(?:comment|note|remark|reply)\b|hand\b.{0,60}\bin\b|turn\b.{0,60}\bin\b|sign\b.{1,40}\bup\b"
        r"|(?:i|we)(?:['\u2019]d| would)? (?:need|want|like)(?: to have)? (?:a|an|another|one)\b"
        r"|(?:get|give|make|find) (?:(?:me|us) )?(?:a|an|another)\b(?=.*\b(?:link|account|code|reminder|copy|draft)\b)"
    ),
    "send": (
        r"let\b.{1,40}\bknow\b|get back to|reach out|follow up|drop\b.{1,30}\ba (?:line|note|message)\b|heads[- ]up"
        r"|(?:give|grant)\b.{1,60}\baccess\b"
        r"|leave\b.{0,30}\b(?:message|reply|word)\b|point out|check with|write back|put\b.{1,40}\bin (?:cc|copy)\b"
    ),
    "pay": r"pay\b.{1,40}\bback\b|give\b.{1,40}\bmoney back\b",
    "book": r"(?:make|get) (?:me |us )?(?:a |an |the |my )?(?:\w+ )?(?:reservation|booking)"
    r"|take the (?:\w+ )?(?:cheapest|earliest|latest|first|next|last|train|flight|room|\d{1,2}[:.]\d{2})\b"
    r"|get (?:me|us) (?:one|two|three|four) of (?:them|those|these)\b"
    r"|get (?:me|us) (?:a|an|the|two|three|four)\b.{0,30}\b(?:tickets?|seats?|table|room|flight|taxi|car)\b",
    "rate": r"\d\s?stars?|(?:leave|write|post|give|add)\b.{0,40}\b(?:review|rating|feedback)",
}
# verbs of other languages: German, French, Spanish, Italian, Portuguese, Dutch
OTHER_VERBS = read_sections("other_verbs")
_ACCESS = r"(?:gib|donne|dale|geef)\b.{1,60}\b(?:zugriff|zugang|acc[eè]s|acceso|accesso|toegang|rechte|droits)\b"
OTHER_PHRASES = {
    "remove": (
        r"(?:wirf|werf|schmei(?:ß|ss)|leg|schieb|pack|mets|met|jette|déplace|pon|tira|manda|metti|butta|sposta|gooi|zet"
        r"|coloque|joga)\w*\b.{1,60}\b(?:papierkorb|m[uü]ll|mülleimer|corbeille|poubelle|papelera|basura|cestino"
        r"|prullenbak|lixeira|lixo)\b"
    ),
    "change": _ACCESS,
    "create": (
        r"(?:hinterlass|laisse|deja|lascia|deixe|laat)\w*\b.{1,30}\b(?:kommentar|notiz|commentaire|note|comentario|nota"
        rf"|commento|comentário|opmerking)\b|{_ACCESS}"
    ),
    "send": (
        r"donne\b.{1,60}\bacc[eè]s\b|bitte\b.{1,40}\bum\b|faire? part|fais(?:-lui)? savoir|hazle saber|fagli sapere"
        r"|laat\b.{1,40}\bweten"
    ),
    "rate": r"\d\s?(?:sterne?|étoiles?|estrellas?|stelle|sterren)"
    r"|(?:schreib|laisse|deja|lascia|schrijf)\b.{0,40}\b(?:bewertung|avis|reseña|recensione|beoordeling)",
}
# forms that are nouns, or something else, in one of the languages: requests only at the beginning of a clause
_AMBIGUOUS = split_words(read_sections("sets")["ambiguous"])
_GERMANIC_ENDINGS = ("", "e", "en", "n", "t", "et", "st", "est", "s")
_GERMANIC = f"(?:{'|'.join(_GERMANIC_ENDINGS)})"
_ENDINGS = {
    "er": ("e", "er", "ez", "es", "ons"),  # French
    "ar": ("a", "ar", "ad", "e", "es", "en", "em", "as"),
    "are": ("a", "are", "ate", "i", "iamo"),
    "ir": ("e", "ir", "a", "as", "an", "id", "i", "es", "isci"),
    "re": ("re", "te"),
    "ere": ("i", "ere", "ete", "a"),
    "ire": ("isci", "ire", "ite", "i"),
    "iere": ("i", "iere"),
}
_UMLAUTS = str.maketrans({"ä": "(?:ä|ae)", "ö": "(?:ö|oe)", "ü": "(?:ü|ue)", "ß": "(?:ß|ss)"})
_PARTICLE_CHARS_MAX = 80
_PARTICLES = read_words("request_verbs_particles")


def build_patterns(family: str) -> tuple[str, str]:
    """Return patterns of the verbs and phrases of other languages: those that stand anywhere in a clause, and those
    that are requests only where an English verb is one, because they are nouns, too."""
    free = [OTHER_PHRASES[family]] if family in OTHER_PHRASES else []
    bound: list[str] = []
    for verb in OTHER_VERBS[family].split():
        stem, mark, ending = verb.partition("-")
        spelled = stem.translate(_UMLAUTS)
        if ending in _PARTICLES:
            free.append(rf"{spelled}{_GERMANIC}\b.{{1,{_PARTICLE_CHARS_MAX}}}\b{ending}")
            free.append(f"{ending}(?:zu)?{spelled}e?n")
            continue
        endings = _ENDINGS.get(ending, (ending,)) if ending else _GERMANIC_ENDINGS
        for one in endings if mark else ("",):
            (bound if f"{stem}{one}" in _AMBIGUOUS else free).append(f"{spelled}{one}")
    return "|".join(dict.fromkeys(free)), "|".join(dict.fromkeys(bound)) or "(?!)"


# verbs in the names of tools that are not among the users' verbs, or mean something else there
TOOL_VERBS = {verb: family for family, verbs in read_sections("tool_verbs").items() for verb in verbs.split()}
# what makes `write_…` and `submit_…` a message
MESSAGE_NOUNS = read_words("request_verbs_message_nouns")
# clauses without a verb that add something to a thing of the user's own: `2 kilos of beans in the basket`
OWN_PLACE = (
    r"\b(?:in|into|on|onto|to|op|auf|in den|dans|sur|en|a|nel|na|no)\s+"
    r"(?:the|my|our|mein\w*|mon|ma|mi|mio|mia|meu|minha|mijn|den|die|das|le|la|el|il|o|de|het)\s+(?:\w+ )?"
    r"(?:basket|cart|trolley|to-?dos?|(?:to-?do|shopping|task|packing|grocery|reading)[- ]list|calendar"
    r"|diary|agenda|kalender|einkaufswagen|warenkorb|einkaufsliste|merkliste"
    r"|panier|carrito|cesta|carrello|carrinho|mandje|winkelwagen|boodschappenlijst\w*)\b"
)
READING_START = (
    r"\W*(?:check|read|look|show|list|see|find|search|sum|summari[sz]e|count|compare|explain|is|are"
    r"|what|who|when|where|which|why|how|any|anything|zeig|lies|such|pr(?:ü|u)f"
    r"|montre|lis|cherche|muestra|lee|busca|mostra|leggi|cerca|toon|lees|zoek)\b"
)
