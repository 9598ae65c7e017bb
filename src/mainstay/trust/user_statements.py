"""What a user's sentences ask for and what they forbid: negations, requests to remove or to change, by language."""

# ruff: noqa: RUF001 -- words of languages with other letters

from __future__ import annotations

import re
from collections.abc import Iterator

_SCOPE_CHARS_MAX = 1_000  # how far back and ahead a sentence is read

_SENTENCE_END = re.compile(r"[.!?…;](?=[\s\"')\]*]|$)|\n|[。！？；]")
# a clause after a conjunction: "delete a.txt and sum up notes.txt"; "a.txt and b.txt" is one
_CLAUSE_BREAK = re.compile(
    r",?(?<!\s)\s+(?:and|then|but|und|dann|aber|et|puis|mais|y|luego|pero|e|poi|ma|depois|mas|en|dan|maar|(?-i:i)|potem|ale|ve|sonra"
    r"|и|потом|но)\s+(?=[^\W\d_]+(?:-(?:le|la|les|lui|leur|moi|nous)\b|\s|$))",
    re.IGNORECASE,
)
_NOT_A_NEGATION = re.compile(
    r"\b(?:do not|don['\u2019]t) (?:forget|hesitate)\b|\bnot only\b"
    r"|\b(?:oh )?no,? (?:just|wait|rather|better|actually)\b|\bvergiss nicht\b|\bn['\u2019]oubliez? pas\b"
    r"|\bno (?:te )?olvides\b|\bnon dimenticare\b|\bnão (?:se )?esqueça\b|\bvergeet niet\b|\bне забудь(?:те)?\b",
    re.IGNORECASE,
)
# a reason before the request: "we do not need a.txt any more, delete it"
_REASON = re.compile(
    r"(?:\b(?:not|no longer|never|nobody|nothing)|n['\u2019]t)\b[^,;:\n]{0,40}?\b(?:need(?:s|ed)?|want(?:s"
    r"|ed)?|us(?:e[sd]?|ing)"
    r"|require[sd]?|relevant|interesting)\b[^,;:\n]{0,80}[,;:]"
    r"|\b(?:brauch\w*|benötig\w*|nutz\w*|verwend\w*)\b[^,;:\n]{0,60}\b(?:nicht|kein\w*|niemand)\b[^,;:\n]{0,40}[,;:]"
    r"|\b(?:ne|n['\u2019])\s?[^,;:\n]{0,40}\b(?:plus|besoin|utilis\w*|sert|pas)\b[^,;:\n]{0,60}[,;:]"
    r"|\bno\b[^,;:\n]{0,30}\b(?:necesit\w*|falta|sirve\w*|us\w+)\b[^,;:\n]{0,60}[,;:]"
    r"|\bnon\b[^,;:\n]{0,30}\b(?:serv\w*|us\w+)\b[^,;:\n]{0,60}[,;:]"
    # what is not possible: "I can't on Friday, move it to Monday"
    r"|\b(?:i|we|he|she|they) (?:cannot|can['\u2019]t|can not|couldn['\u2019]t|won['\u2019]t be able)\b"
    r"[^,;:\n]{0,60}[,;:]"
    r"|\b(?:ich|wir|er|sie) (?:kann|können)\b[^,;:\n]{0,40}\bnicht\b[^,;:\n]{0,30}[,;:]"
    r"|\bje ne (?:peux|pourrai) pas\b[^,;:\n]{0,60}[,;:]|\bno (?:puedo|podré|podemos)\b[^,;:\n]{0,60}[,;:]"
    r"|\bnon posso\b[^,;:\n]{0,60}[,;:]",
    re.IGNORECASE,
)
# a condition before the request: "If it does not pass, write to …"; not "if in doubt do not write to …, …"
_CONDITION = re.compile(
    r"(?:^|[\s,(])(?:if|when|whenever|in case)\b(?:(?!\b(?:do not|don['\u2019]t|never|please)\b)[^,\n]){0,300},"
    r"|(?:^|[\s,(])(?:wenn|falls|sobald)\b[^,\n]{0,300},",
    re.IGNORECASE,
)
_CONTRAST = re.compile(r"\b(?:but|sondern|aber|mais|pero|sino|però|bensì|mas|maar|ale|но|ama)\b|但|而是", re.IGNORECASE)
_NEGATION = re.compile(
    r"\b(?:not|never|no longer|cannot|without|except|excluding|avoid|stop|instead of|rather than|nothing|nobody)\b"
    r"|n['\u2019]t\b|\b(?:dont|doesnt|shouldnt|mustnt|wont|cant)\b"
    r"|\b(?:nichts|nicht|kein(?:e[nmrs]?)?|nie|niemals|ohne|außer|statt|anstatt)\b"
    r"|\b(?:ne|pas|rien|jamais|sans|sauf)\b|\bn['\u2019](?=[aeiouyhéè])"
    r"|\b(?:no|nada|nunca|jamás|sin|excepto|salvo)\b"
    # `mai` is a month after a number or one of these words
    r"|\b(?:non|(?<!\d )(?<!\d\. )(?<!\d\.)(?<!er )(?<!im )(?<!en )(?<!de )(?<!fin )(?<!début )(?<!mitte )(?<!ende )"
    r"(?<!anfang )(?<!bis )(?<!ab )mai|senza|tranne)\b"
    r"|\b(?:não|nao|nunca|sem|exceto)\b"
    r"|\b(?:niet|geen|nooit|zonder|behalve)\b"
    r"|\b(?:nie|nigdy|bez|oprócz)\b"
    r"|\b(?:değil|asla|sakın|hariç)\b"
    r"|\b(?:не|никогда|без|кроме|нельзя)\b"
    r"|不|别|勿|没|除了|禁止|لا|لم|لن|بدون|عدا",
    re.IGNORECASE,
)
# the suffix alone is that of "come" and "time": it counts in a word with a Turkish letter, or for frequent verbs
_TURKISH_NEGATION = (
    r"\b(?:(?=\w*(?-i:[ğışİ]))\w+|(?:gönder|gonder|yaz|sil|yolla|ilet|at|et|yap|ver|ara|ekle|kald[ıi]r|oku|a[çc]|de|s[öo]yle))"
    r"m[ae](?:y[ıi]n(?:[ıi]z)?)?\b"
)
# languages in which the negation follows: it may stand anywhere in the sentence
_LATE_NEGATION = re.compile(
    rf"ない|ません|しないで|ずに|以外|禁止|지\s?마|지\s?말|말고|않|제외|금지|मत|नहीं|{_TURKISH_NEGATION}(?=\s*[.!]?$)"
    r"|^\W{0,3}(?:\w+ ){0,2}(?:must|should|may|can|shall|will|is|are|does|do|ought)(?: not|n['\u2019]t| never)\b"
    r"|\b(?:nicht|niemals|niet)\W*$",
    re.IGNORECASE,
)
_REMOVAL = re.compile(
    r"\b(?:delet(?:e|ing)|remov(?:e|ing)|eras(?:e|ing)|discard(?:ing)?|purg(?:e|ing)|wip(?:e|ing)|trash|unlink|uninstall"
    r"|get rid of|throw\b(?:[^.!?\n]{1,80}?)??\s(?:away|out|(?:in|into|to) the (?:trash|bin|garbage))"
    r"|scrap|dedup(?:e|licate)|mov(?:e|ing)|renam(?:e"
    r"|ing)|reset|revert|undo|prun(?:e|ing)|rm|rmdir|mv"
    r"|(?:clean|clear|empty|tidy)(?:ing)? (?:up|out|the|all|my|our|this|that|these|those|it|them|everything)"
    r"|can be (?:deleted|removed)|can go(?=\s*(?:[.,!?;]|$))"
    r"|drop(?:ping)? (?:the|it|them|this|that|these|those|all|my|our|table|column|index|database|\S*[./_]\S*))\b"
    r"|\b(?:l(?:ö|oe)sch(?:e|en|t)?|entfern(?:e|en|t)?|verschieb(?:e|en|t)?|umbenenn(?:e|en|t)?|benenne\b.{1,80}\bum"
    r"|aufr(?:ä|ae)um(?:e|en)?|r(?:ä|ae)um(?:e|t)?\b.{1,80}\bauf|(?:wirf|schmei(?:ß|ss)e?)\b.{1,80}\bweg"
    r"|(?:kann|können|darf|dürfen) weg)\b"
    r"|\b(?:supprim(?:e|er|ez|ons)|effac(?:e|er|ez|ons)|enl(?:è|e)v(?:e|er|ez|ons)|d(?:é|e)plac(?:e|er|ez|ons)"
    r"|renomm(?:e|er|ez|ons)|retir(?:e|er|ez|ons)|nettoie|nettoy(?:er|ez|ons)|jett?e[rz]?)\b"
    r"|\b(?:borr(?:a|ar|ad|e|en|es)|b(?:ó|o)rral[oae]s?|elimin(?:a|ar|ad|e|en|es)|quit(?:a|ar|ad|e|es)|muev(?:e|a|as)"
    r"|mover|limpi(?:a|ar|e|es)|renombr(?:a|ar|e|es))\b"
    r"|\b(?:cancell(?:a|are|ate)|rimuov(?:i|ere|ete)|elimin(?:are|ate)|spost(?:a|are|ate)|rinomin(?:a|are|ate))\b"
    r"|\b(?:apag(?:a|ar|ue|uem)|exclu(?:a|i|ir|am)|remov(?:er|a|am)|mov(?:er|a|am)|elimin(?:em|ar))\b"
    r"|\b(?:verwijder(?:en)?|wis(?:sen)?|verplaats(?:en)?|hernoem(?:en)?)\b"
    r"|\b(?:usu(?:ń|n)(?:cie)?|usun(?:ą|a)(?:ć|c)|skasuj(?:cie)?|skasowa(?:ć|c)|przenie(?:ś|s)(?:(?:ć|c))?)\b"
    r"|\b(?:sil(?:in(?:iz)?|elim)?|kald(?:ı|i)r(?:(?:ı|i)n)?|ta(?:ş|s)(?:ı|i)(?:y(?:ı|i)n)?)\b"
    r"|\b(?:удали(?:ть|те)?|сотри(?:те)?|стереть|перемести(?:ть|те)?|переимен(?:уй|уйте|овать))\b"
    r"|删|移除|清理|移动|削除|消し|消去|移動|삭제|지워|지우|이동|احذف|حذف|امسح|हटा|मिटा",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:set(?:ting)?|add|creat(?:e|ing)|writ(?:e|ing)|install|configur(?:e|ing)|updat(?:e|ing)|chang(?:e|ing)|edit|fix"
    r"|enabl(?:e|ing)|activat(?:e|ing)|us(?:e|ing)|put|generat(?:e|ing)|initiali[sz](?:e|ing)|init|bootstrap|scaffold"
    r"|replac(?:e|ing)|switch|turn on|make|includ(?:e|ing)|migrat(?:e|ing)|extend|point|register)\b"
    r"|\b(?:setz(?:e|en|t)|stell(?:e|en|t)|erstell(?:e|en|t)|schreib(?:e|en|t)?|installier(?:e|en|t)|konfigurier(?:e|en|t)"
    r"|ändere?|aktualisier(?:e|en|t)|aktivier(?:e|en|t)|richte|einrichten|füg(?:e|en|t)|hinzufügen|nutze|verwende)\b"
    r"|\b(?:ajout(?:e|er|ez)|cr(?:é|e)e(?:r|z)?|(?:é|e)cri(?:s|re|vez)|install(?:er|ez)|configur(?:er|ez)"
    r"|modifi(?:e|er|ez)|met(?:s|tre|tez)|activ(?:e|er|ez)|utilis(?:e|er|ez))\b"
    r"|\b(?:a(?:ñ|n)ad(?:e|ir)|crea(?:r)?|escrib(?:e|ir)|instala(?:r)?|configura(?:r|re)?|cambia(?:r|re)?|actualiza(?:r)?"
    r"|pon(?:er)?|activa(?:r)?|usa(?:r|re)?|aggiung(?:i|ere)|scriv(?:i|ere)|imposta(?:re)?|modifica(?:r|re)?"
    r"|adiciona(?:r)?|cri(?:a|e|ar)|escrev(?:a|er))\b"
    r"|\b(?:voeg|maak|schrijf|installeer|configureer|wijzig|stel|gebruik|dodaj|utwórz|napisz|zainstaluj|skonfiguruj|ustaw"
    r"|ekle|oluştur|yaz|kur|ayarla|добавь(?:те)?|создай(?:те)?|напиши(?:те)?|установи(?:те)?|настрой(?:те)?|измени(?:те)?)\b"
    r"|添加|创建|设置|安装|配置|修改|追加|作成|設定|変更|추가|설정|설치|만들",
    re.IGNORECASE,
)
# directly after the verb and at the end of what is asked for: not "delete the line that …"
_PRONOUN = re.compile(
    r"\s+(?:all of |both of )?(?:it|them|these|those|both|everything|all|sie|es|alles|alle|ihn|les|tout|tous|los|las"
    r"|todo|todos|tutto|tutti|tudo|ze|het|alles|je|wszystko|onları|hepsini|их|его|её|все|всё)\b"
    r"(?=\s*(?:[.,!?;:)]|$|please\b|now\b|bitte\b))|\s*(?:它|他|们|これ|それ|全部|그것|모두)",
    re.IGNORECASE,
)


def is_negated(text: str, start: int, end: int) -> bool:
    """Return True if the sentence forbids, or leaves out, what stands at this place: `do not write to eve@…`."""
    after = text[end : end + _SCOPE_CHARS_MAX]
    after = after[: found.start()] if (found := _SENTENCE_END.search(after)) else after
    return is_negated_before(text, start) or _LATE_NEGATION.search(after) is not None


def is_negated_before(text: str, end: int) -> bool:
    """Return True if there is a negation between the beginning of the sentence and this place."""
    before = text[max(0, end - _SCOPE_CHARS_MAX) : end]
    before = before[max((found.end() for found in _SENTENCE_END.finditer(before)), default=0) :]
    before = _CONDITION.sub(" ", _REASON.sub(" ", _NOT_A_NEGATION.sub(" ", before)))
    contrasts = list(_CONTRAST.finditer(before))
    scope = before[contrasts[-1].end() :] if contrasts else before
    return _NEGATION.search(scope) is not None


def iterate_removal_clauses(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the place of each clause that asks for something to be removed or moved, and whether its object is a
    pronoun (`delete them`)."""
    for start, end in iterate_clauses(text):
        clause = text[start:end]
        for found in _REMOVAL.finditer(clause):
            if not is_negated(text, start + found.start(), start + found.end()):
                yield start, end, _PRONOUN.match(text, start + found.end(), end) is not None
                break


def blank_removal_verbs(clause: str) -> str:
    """Return a clause with spaces in the place of its verbs of removal."""
    return _REMOVAL.sub(lambda found: " " * len(found[0]), clause)


def iterate_change_clauses(text: str) -> Iterator[tuple[int, int]]:
    """Yield the place of each clause that asks for something to be written, set up or changed."""
    for start, end in iterate_clauses(text):
        clause = text[start:end]
        if any(
            not is_negated(text, start + found.start(), start + found.end())
            for pattern in (_CHANGE, _REMOVAL)
            for found in pattern.finditer(clause)
        ):
            yield start, end


def iterate_clauses(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each clause of a text begins and ends."""
    start = 0
    ends = [(found.start(), found.end()) for found in _SENTENCE_END.finditer(text)]
    for end, following in (*ends, (len(text), len(text))):
        begin = start
        for conjunction in _CLAUSE_BREAK.finditer(text, start, end):
            yield begin, conjunction.start()
            begin = conjunction.end()
        yield begin, end
        start = following
