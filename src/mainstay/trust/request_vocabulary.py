"""Words of requests that are no verbs: things with several names or in several languages, ordinary words."""

from __future__ import annotations


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# what makes `send_…` a payment
MONEY = split_words(
    """
    money payment payments funds transfer transaction transactions cash order orders rent subscription
    dauerauftrag virement
    transferencia
    """
)
# things with several names
SYNONYMS = tuple(
    split_words(line)
    for line in (
        """file document doc sheet spreadsheet note notes list report datei dokument fichier archivo documento
        bestand""",
        """event meeting appointment call calendar reminder lunch dinner termin kalender besprechung rendez-
        vous réunion cita reunión evento riunione afspraak""",
        """mail email message dm text letter nachricht courriel mensaje correo messaggio bericht""",
        """issue ticket bug task todo card""",
        """booking reservation room table hotel flight restaurant car trip ticket buchung reservierung
        réservation reserva""",
        """payment transaction transfer invoice bill order rent refund expense expenses spending
        rechnung zahlung überweisung facture
        paiement factura pago""",
        """message thread post reply channel room group chat kanal salon canal""",
        """user member person people contact participant participants""",
        """folder directory ordner dossier carpeta""",
    )
)
# one thing in several languages
TRANSLATIONS = tuple(
    split_words(line)
    for line in (
        "note notes memo notiz notizen nota notas notitie",
        "draft entwurf brouillon borrador bozza concept",
        "file document doc datei dokument fichier archivo documento bestand",
        "event appointment meeting calendar termin kalender rendez réunion cita reunión evento riunione agenda"
        " calendario",
        "reminder erinnerung rappel recordatorio promemoria herinnering",
        "task todo aufgabe tâche tarea compito taak",
        "folder ordner dossier carpeta cartella map",
        "list liste lista lijst",
        "issue ticket bug",
        "status statut estado stato",
        "channel room kanal salon canal",
        "contact contacts kontakt kontakte contacto contactos contatto contatti",
    )
)
# frequent words of the languages whose verbs are listed above
UNDERSTOOD = split_words(
    """
    the a an is are what which who how when where do does did can could please my me i you to of in on for with
    and der die das ist sind was wie wer wann wo bitte mein meine und ich du zu von auf für mit ein eine le la
    les est sont que qui quoi quel quelle comment où mon ma mes je tu de pour avec et un une el los las es son
    qué quién cuál cómo dónde mi mis yo para con y una il lo gli è sono che chi come dove mio mia per e um uma
    os as é são o quem como onde meu minha com het een zijn wat hoe mijn ik van voor met
    """
)
# words that name nothing
ORDINARY = split_words(
    """
    the and for with from that this these those you your our his her their its all any each every some please
    can could would will shall should have has had been are was were not but new next last first today tomorrow
    yesterday week month year day days time com org net www http https mail gmail email work home office about
    into over under there here then than when what which who whom whose how why just only also very more most
    less least other another same own und der die das den dem des ein eine einen einem mit von vom für auf aus
    bei zum zur ist sind war bitte alle mein meine meinen dein unser auch noch nur les une dans pour avec sur
    par est sont mes tous toutes ce cette los las una uno del por para con mis sus este esta todo toda il gli
    per della dei true false none null yes open closed active pending high low medium normal public private
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december montag dienstag mittwoch donnerstag freitag samstag sonntag
    """
)
NAME_LETTERS_MIN = 3


def can_name(word: str, letters_min: int = NAME_LETTERS_MIN) -> bool:
    """Return True if a word in lower case can be (a part of) a name."""
    return len(word) >= letters_min and word not in ORDINARY and not word.isdecimal()
