"""Words by which users ask for actions, by language: verbs, groups of people, things with several names."""

from __future__ import annotations


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# English verbs of each family of actions, in tool names and in users' sentences
ENGLISH_VERBS = {
    "remove": """
        delete remove cancel erase discard trash purge wipe clear unsubscribe uninstall revoke drop decline
        unlink unshare unassign dismiss
        kick expel uninvite exclude unfollow unassign withdraw retract strike
    """,
    "change": """
        update change edit modify reschedule move rename set adjust mark assign extend postpone shift push delay
        correct fix replace switch raise lower increase reduce turn star flag label tag pin resolve close reopen
        complete finish archive merge approve snooze confirm accept ok grant toggle tick convert prioritise
        prioritize
        upgrade
        amend refresh relabel relocate swap revise overwrite append hand transfer promote demote rate like react
        enable disable activate deactivate mute unmute subscribe return vote rebook
    """,
    "create": """
        create add make schedule append write save draft register insert put enter note plan record log file
        generate start remind set copy upload store import prepare document comment
        block establish compose type jot build open issue attach set collect gather compile duplicate
    """,
    "send": """
        send mail email message post reply forward share notify invite tell write publish respond answer announce dm
        ping text submit ask thank confirm inform give pass
        contact warn alert offer broadcast deliver relay request remind call loop say let fill drop introduce
        apologise apologize
        congratulate cc bcc react thumbs nudge hand vote
    """,
    "pay": """
        pay transfer send refund wire donate buy order purchase reimburse settle
        repay tip
    """,
    "book": """
        book reserve order rent hire buy
    """,
    "rate": """
        rate approve accept reject
    """,
}
# verbs of other languages in users' sentences; patterns
OTHER_VERBS = {
    "remove": (
        r"(?:take|kick|throw)\b.{1,40}\b(?:off|out|away)|wirf|lad(?:e)?\b.{1,60}\baus|nimm\b.{1,60}\b(?:raus|weg|ab)|schmei(?:ß|ss)|l(?:ö|oe)sch(?:e|en|t)?|entfern(?:e|en|t)?|storniere?n?|sag(?:e)?\b.{1,60}\bab|streich(?:e|en)?|kündige?n?"
        r"|supprime[rz]?|efface[rz]?|annule[rz]?|enlève[rz]?|borra[r]?|elimina[r]?|cancela[r]?|quita[r]?|anula[r]?"
        r"|cancella(?:re)?|rimuovi|annulla(?:re)?|apaga[r]?|remova|exclua|verwijder(?:en)?|annuleer|schrap"
    ),
    "change": (
        r"send\b.{1,60}\bback\b|(?:give|grant|gib|donne|dale)\b.{1,60}\b(?:access|rights?|permissions?|zugriff|accès|acceso)"
        r"|nimm|akzeptiere?n?|best(?:ä|ae)tige?n?|sag(?:e)?\b.{1,60}\b(?:zu|ab)|archiviere?n?|verl(?:ä|ae)nger(?:e|n)?|(?:ä|ae)nder(?:e|n)|accepte[rz]?|confirme[rz]?|refuse[rz]?|archive[rz]?|acepta[r]?|confirma[r]?|rechaza[r]?|archiva[r]?|pasa(?:r|lo|la)?|ponl[oa]s?|accetta(?:re)?|conferma(?:re)?|verschieb(?:e|en|t)?|verleg(?:e|en|t)?|aktualisiere?n?|setz(?:e|en|t)?|stell(?:e|en|t)?"
        r"|schließe?n?|markiere?n?|leg(?:e|en|t)?\b.{1,60}\bum|benenn(?:e|en)?|erhöhe?n?"
        r"|pass(?:e|en)?\b.{1,60}\ban|ersetze?n?|modifie[rz]?|change[rz]?|déplace[rz]?|reporte[rz]?|décale[rz]?"
        r"|mets|mettez|ferme[rz]?|renomme[rz]?|remplace[rz]?|cambia[r]?|mueve|mover|actualiza[r]?"
        r"|modifica(?:re|r)?|pon|cierra|cerrar|aplaza[r]?|renombra[r]?|marca[r]?|sposta(?:re)?|aggiorna(?:re)?"
        r"|chiudi|rinomina|muda[r]?|altera[r]?|atualiza[r]?|verplaats|wijzig|sluit"
    ),
    "create": (
        r"(?:give|grant|gib|donne|dale)\b.{1,60}\b(?:access|rights?|permissions?|zugriff|accès|acceso)"
        r"|turn\b.{1,80}\binto\b|kopiere?n?|copie[rz]?|copia[r]?|samml(?:e|en)|sammele|rassemble[rz]?|recopila[r]?|raccogli"
        r"|blocke?n?|block(?:ier|iere|ieren)|bloque[rz]?|bloquea[r]?|ponl[oa]s?|open (?:a|an|another) |abre|abrir"
        r"|sag(?:e|t)?|erstell(?:e|en|t)?|leg(?:e|en|t)?\b.{1,60}\ban|füg(?:e|en"
        r"|t)?|trag(?:e|en|t)?"
        r"|schreib(?:e|en|t)?"
        r"|notiere?n?|mach(?:e|en|t)?|speicher(?:e|n)?|plane?n?|erinner(?:e|n)?|ergänze?n?|crée[rz]?|créer"
        r"|ajoute[rz]?|écris|écrire|note[rz]?|enregistre[rz]?|planifie[rz]?|rappelle|crea[r]?|añade|añadir"
        r"|agrega[r]?|escribe|escribir|anota[r]?|apunta[r]?|guarda[r]?|programa[r]?|recuérdame|creare|aggiungi"
        r"|aggiungere|scrivi|annota|salva|cria[r]?|adiciona[r]?|escreve|escreva|anote|salve|maak|voeg|schrijf"
    ),
    "send": (
        r"antworte?n?|frag(?:e|en|t)?|bitte\b.{1,40}\bum|dank(?:e|en)|bescheid|contest(?:a|ar|e)|cu(?:é|e)ntale|pregunta(?:r|le)?|d(?:é|i)sela|demande[rz]?|confirme[rz]?|confirma[r]?|remercie[rz]?|chiedi|avvisa|vraag|send(?:e|en|et)|schick(?:e|en|t)?|schreib(?:e|en|t)?|poste?n?|antwort(?:e|en|et)|teil(?:e|en|t)?"
        r"|leit(?:e|en|et)?|lad(?:e|en)?\b.{1,60}\bein|informiere?n?|sag(?:e|t|en)?|mail(?:e|t)|gib|melde|envoie"
        r"|envoyer|envoyez|écris|écrire|répond(?:s|re|ez)?|partage[rz]?|transfère|transférer|invite[rz]?"
        r"|publie[rz]?|préviens|dis|manda[r]?|envía|enviar|escribe|responde[r]?|comparte|compartir|reenvía"
        r"|invita[r]?|publica[r]?|avisa[r]?|dile|invia(?:re)?|rispondi|condividi|inoltra|pubblica|scrivi|envia[r]?"
        r"|responda|partilha|compartilh[ae]|stuur|deel|antwoord"
    ),
    "pay": (
        r"begleiche?n?|r(?:é|e)gle[rz]?|rends|rendre|devuelve|ingresa|zahl(?:e|en|t)?|règle[rz]?|bezahl(?:e|en|t)?|überweis(?:e|en|t)?|erstatte[nt]?|kauf(?:e|en|t)?"
        r"|bestell(?:e|en|t)?"
        r"|paie|paye[rz]?|vire[rz]?|rembourse[rz]?|achète|acheter|commande[rz]?|paga(?:r|re)?|transfiere"
        r"|transferir|reembolsa|compra[r]?|bonifica|rimborsa|betaal|maak\b.{1,60}\bover|koop"
    ),
    "rate": (
        r"\d\s?(?:stars?|sterne?|étoiles?|estrellas?|stelle|sterren)|bewerte?n?|genehmige?n?|approuve[rz]?|aprueba"
        r"|(?:leave|write|post|give|add|schreib|laisse|deja)\b.{0,40}\b(?:review|rating|feedback|bewertung|avis|reseña)"
    ),
    "book": (
        r"miet(?:e|en)|nimm|(?:make|get) (?:me |us )?(?:a |an |the |my )?(?:\w+ )?(?:reservation|booking)"
        r"|buch(?:e|en|t)?|reserviere?n?|miete?n?"
        r"|réserve[rz]?|loue[rz]?|reserva[r]?|alquila[r]?|prenota(?:re)?|boek|reserveer"
    ),
}
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
