"""Detects whether a user's text asks for something to be removed or moved; naming a file alone is no such request."""

from __future__ import annotations

import re

_REMOVAL = re.compile(
    r"\b(?:delet|remov|eras|drop|discard|clean|clear|purg|wip(?:e|ing)|trash|get rid|throw|unlink|uninstall"
    r"|mov(?:e|ing)|renam|reset|revert|undo|prun"  # English; moving a file removes it from its old path
    r"|l(?:ö|oe)sch|entfern|verschieb|umbenenn|aufr(?:ä|ae)um"  # German
    r"|supprim|effac|enl(?:e|è)v|d(?:é|e)plac|renomm|nettoi"  # French
    r"|borr|elimin|quit[ae]|mueve|mover|limpi"  # Spanish
    r"|cancell|rimuov|sposta|rinomin|apag|exclu|verwijder|wis\b|usu(?:ń|n)|skasuj|przenie"  # It, Pt, Nl, Pl
    r"|sil\b|siln|kald.r|ta[şs]"  # Turkish
    r"|удал|сотр|стер|перемест|переимен)"  # Russian
    r"|\b(?:rm|rmdir|mv)\b"
    r"|删|移除|清理|移动|削除|消し|消去|移動|삭제|지워|지우|이동|احذف|حذف|امسح|हटा|मिटा",
    re.IGNORECASE,
)


def asks_to_remove(text: str) -> bool:
    return _REMOVAL.search(text) is not None
