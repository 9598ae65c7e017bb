"""Verbs and phrases by which users ask for actions, and verbs in the names of tools, by family of actions.

The lists of other languages are stems with a mark for their endings: `lösch-` is German or Dutch (`lösche`, `löschen`),
`hak-ab` a verb in two parts (`hak die Aufgabe ab`, `abhaken`), `supprim-er` French, `borr-ar` Spanish, Italian or
Portuguese, `escrib-ir` likewise. A word without a mark has no other form. Texts are compared without accents.
"""

from __future__ import annotations

from mainstay.trust.request_vocabulary import split_words

# English verbs of each family, in users' sentences
ENGLISH_VERBS = {
    "remove": """
        delete remove cancel erase discard trash purge wipe clear unsubscribe uninstall revoke drop decline
        unlink unshare unassign dismiss kick expel uninvite exclude unfollow withdraw retract strike scrap ditch chuck
        toss nuke void terminate annul rescind eject deregister unregister unpublish detach disinvite
    """,
    "change": """
        update change edit modify reschedule move rename set adjust mark assign extend postpone shift push delay
        correct fix replace switch raise lower increase reduce turn star flag label tag pin resolve close reopen
        complete finish archive merge approve snooze confirm accept ok grant toggle tick convert prioritise
        prioritize upgrade amend refresh relabel relocate swap revise overwrite append hand transfer promote demote rate
        like react enable disable activate deactivate mute unmute subscribe return vote rebook rsvp reject decline
        deny lock unlock start stop pause resume dim brighten lengthen shorten prolong renew reassign delegate escalate
        bump advance defer trim rework rewrite tweak customise customize configure unpin unstar unflag unarchive
        restore sort file categorise categorize organise organize reset redirect undo decide authorise authorize sign
        downgrade expand double halve bring
    """,
    "create": """
        create add make schedule append write save draft register insert put enter note plan record log file
        generate start remind set copy upload store import prepare document comment block establish compose type jot
        build open issue attach collect gather compile duplicate submit capture export bookmark enrol
        enroll subscribe include throw stick pop fill initiate launch clone fork replicate publish enlist
        apply claim produce arrange organise organize pencil backup sign lodge
    """,
    "send": """
        send mail email message post reply forward share notify invite tell write publish respond answer announce dm
        ping text submit ask thank confirm inform give pass contact warn alert offer broadcast deliver relay request
        remind call loop say let fill drop introduce apologise apologize congratulate cc bcc react thumbs nudge hand
        vote wish explain circulate distribute tweet reassure greet brief
    """,
    "pay": """
        pay transfer send refund wire donate buy order purchase reimburse settle repay tip
    """,
    "book": """
        book reserve order rent hire buy
    """,
    "rate": """
        rate approve accept reject review
    """,
}
# English phrases: where they begin, there may be a verb
ENGLISH_PHRASES = {
    "remove": (
        r"get rid of|(?:throw|take|kick|cross|strike|clean|clear)\b.{0,60}\b(?:off|out|away)\b|call\b.{1,60}\boff\b"
        r"|opt out|bin (?:the|that|this|it|them|these|those|my|our|all|both|everything)\b|do away with|blow away"
    ),
    "change": (
        r"send\b.{1,60}\bback\b|(?:tick|check|cross)\b.{1,60}\boff\b|(?:sign|hand) (?:off|over)"
        r"|bring\b.{1,60}\bforward\b|(?:give|grant)\b.{1,60}\b(?:access|rights?|permissions?)\b"
        r"|(?:say|tell \w+) (?:yes|no) to|wrap up|let\b.{1,40}\bedit"
    ),
    "create": (
        r"turn\b.{1,80}\binto\b|(?:give|grant)\b.{1,60}\b(?:access|rights?|permissions?)\b|open (?:a|an|another) "
        r"|hand\b.{0,60}\bin\b|turn\b.{0,60}\bin\b|sign\b.{1,40}\bup\b"
        r"|(?:i|we)(?:['\u2019]d| would)? (?:need|want|like)(?: to have)? (?:a|an|another|one)\b"
        r"|(?:get|give|make|find) (?:me|us) (?:a|an|another)\b(?=.*\b(?:link|account|code|reminder|copy|draft)\b)"
    ),
    "send": (
        r"let\b.{1,40}\bknow\b|get back to|reach out|follow up|drop\b.{1,30}\ba (?:line|note|message)\b|heads[- ]up"
        r"|write back|put\b.{1,40}\bin (?:cc|copy)\b"
    ),
    "pay": r"pay\b.{1,40}\bback\b",
    "book": r"(?:make|get) (?:me |us )?(?:a |an |the |my )?(?:\w+ )?(?:reservation|booking)",
    "rate": r"\d\s?stars?|(?:leave|write|post|give|add)\b.{0,40}\b(?:review|rating|feedback)",
}
# verbs of other languages: German, French, Spanish, Italian, Portuguese, Dutch
OTHER_VERBS = {
    "remove": """
                lösch- entfern- stornier- streich- kündig- tilg- verwirf verwerfen wirf-weg werf-weg
        wirf werfen schmeiß-weg
                schmeiß- nimm-raus nimm-weg nimm-ab sag-ab lad-aus bestell-ab meld-ab räum-weg hau-
        weg mach-weg widerruf-
                supprim-er effac-er annul-er enlèv-er enlev-er retir-er jett-er jet-er élimin-er
        résili-er révoqu-er vir-er
        désabonn-er désinscri-s désinscrire
        borr-ar elimin-ar cancel-ar quit-ar anul-ar suprim-ir descart-ar tira retir-ar revoc-ar
                cancell-are rimuov-ere annull-are elimin-are togli togliere butta buttare scart-are
        disdici disdire revoc-are
        apag-ar apague remov-er exclu-ir exclua cancele desmarc-ar
                verwijder- annuleer annuleren schrap schrappen wis wissen gooi-weg haal-weg zeg-af
        zeg-op meld-af trek-in
    """,
    "change": """
                änder- änd're verschieb- verleg- aktualisier- setz- stell- schließ- markier- leg-um
        benenn- benenn-um erhöh-
                senk- pass-an ersetz- nimm nimm-an akzeptier- bestätig- sag-zu sag-ab archivier-
        verlänger- verkürz- bearbeit-
                korrigier- tausch- wechsel- schalt- mach-an mach-aus mach-zu mach-auf dreh- hak-ab
        kreuz-an sortier- ordne
                ordnen genehmig- bewillig- lehn-ab gib-frei beförder- übertrag- weis-zu zieh-vor
        häng-an erledig- wandel- aktivier-
        deaktivier- sperr- entsperr- öffne öffnen kürz- verschick-um
                modifi-er chang-er déplac-er report-er décal-er mets mettez mettre ferm-er renomm-er
        remplac-er accept-er
                confirm-er refus-er archiv-er corrig-er prolong-er augment-er rédui-s réduire valid-
        er approuv-er coch-er class-er
                assign-er attribu-er rouvr-ir termin-er marqu-er activ-er désactiv-er étein-s
        éteindre allum-er baiss-er mont-er
        convert-ir transform-er édit-er rempli-s rejet-er
                cambi-ar muev-er mov-er actualiz-ar actualic-e modific-ar modifique pon poner pong-a
        cierr-ar cerrar aplaz-ar
                renombr-ar marc-ar acept-ar confirm-ar rechaz-ar archiv-ar pas-ar correg-ir corrig-e
        reemplaz-ar sub-ir baj-ar
                aprueb-ar aprob-ar asign-ar complet-ar termin-ar extiend-er extender edit-ar ajust-
        ar activ-ar desactiv-ar
        enciend-er encender apag-ar adelant-ar retras-ar convier-te convertir tach-ar
                spost-are aggiorn-are chiudi chiudere rinomin-are accett-are conferm-are modific-are
        cambi-are metti mettere
        correggi correggere sostitu-ire approv-are rifiut-are assegn-are complet-are spunt-are segn-are alz-are
                abbass-are accend-ere spegni spegnere archivi-are prolung-are riapri riaprire
        imposta impostare anticip-are
        mud-ar alter-ar atualiz-ar atualize mova fech-ar feche aceit-ar aprov-ar rejeit-ar substitu-ir corrij-a
        corrig-ir renome-ar adi-ar conclu-ir conclua arquiv-ar ajust-ar defin-ir reabr-ir marque
                verplaats- wijzig- sluit- verander- verzet- verschuif verschuiven zet-aan zet-uit
        zet-op zet-om pas-aan hernoem-
                accepteer accepteren bevestig- keur-goed keur-af wijs-af wijs-toe vink-af vink-aan
        streep-door werk-bij verleng-
                verhoog verhogen verlaag verlagen vervang- archiveer archiveren markeer markeren
        rond-af ruil- draai- stel-in
        stel-uit heropen- corrigeer corrigeren
    """,
    "create": """
                erstell- anleg- leg-an füg- füg-hinzu trag- trag-ein schreib- notier- mach speicher-
        sicher- plan- erinner-
                ergänz- sag kopier- samml- sammel- block- blockier- stell-zusammen setz- pack- leg-
        tun nimm-auf halt-fest
                merk- richt-ein buch-ein eröffn- lad-hoch reich-ein meld-an registrier-
        protokollier- erfass- generier- bau-
        entwerf- entwirf häng-an dreh- zeichn- brauch-
                cré-er ajout-er écri-s écrire écrivez not-er enregistr-er planifi-er rappell-er
        rappel-er mets mettre copi-er
                rassembl-er bloqu-er inscri-s inscrire inscrivez rédig-er sauvegard-er sauv-er
        génèr-er génér-er télévers-er
        programm-er ouvr-e ouvrir dépos-er soumet-s soumettre import-er export-er prépar-er range ranger
                cre-ar añad-ir agreg-ar agregue escrib-ir anot-ar apunt-ar guard-ar program-ar
        recuérd-ar recuerd-ar copi-ar
                copie recopil-ar bloque-ar pon ponl-o poner abr-ir met-er insert-ar registr-ar
        redact-ar gener-ar sub-ir prepar-ar
        agend-ar inscrib-ir incluy-e incluir haz hacer present-ar
                aggiung-ere scriv-ere annot-are salv-are cre-are copi-are raccogl-iere raccogli
        segn-are metti mettere inser-ire
                inserisci registr-are programm-are prepar-are gener-are carica caricare pianific-are
        ricord-are fai iscrivi
        iscrivere
                cri-ar adicion-ar adicione escrev-er anot-ar anote salv-ar salve guard-ar ponha põe
        coloc-ar coloque agend-ar
        regist-ar registr-ar inser-ir lembr-ar marc-ar prepar-ar gerar gere faça fazer
                maak maken voeg voegen voeg-toe schrijf schrijven noteer noteren zet zetten sla-op
        bewaar bewaren leg-vast
                kopieer kopiëren plan plannen stop stoppen doe herinner- registreer registreren
        open- reik-in dien-in upload-
        vul-in prik- meld-aan verzamel- bereid-voor
    """,
    "send": """
                antwort- beantwort- frag- dank- schick- send- schreib- post- teil- teil-mit leit-
        leit-weiter lad-ein informier-
                sag- mail- gib gib-weiter gib-bescheid meld- bescheid verschick- erzähl-
        benachrichtig- grüß- gratulier- richt-aus
                sims- whatsapp- frag-nach erinner- veröffentlich- kommentier- sprich-an bitt-
        bedank- entschuldig- stell-vor
        empfehl- empfiehl warn- reich-ein
                envoi-er envoie envoy-er écri-s écrire écrivez répond-s réponds répond répondre
        répondez partag-er transfèr-er
                transfér-er invit-er publi-er prévien-s préviens prévenir prévenez dis dites dire
        demand-er confirm-er remerci-er
                inform-er averti-s avertir rappell-er annonc-er communiqu-er félicit-er post-er
        expédi-er soumet-s soumettre
        signal-er
                mand-ar enví-ar envi-ar escrib-ir respond-er contest-ar compart-ir comparte reenví-
        ar reenvi-ar invit-ar public-ar
                publique avis-ar dile diles dígale decir cuént-ale cuent-ale pregunt-ar díselo
        dísel-a confirm-ar agradec-er
        inform-ar notific-ar notifique felicit-ar recuérd-ale coment-ar pas-ar anunci-ar
                invi-are rispond-ere condivid-ere inoltr-are pubblic-are scriv-ere mand-are chied-
        ere avvis-are digli dille dì
        dire comunic-are inform-are ringrazi-are invit-are conferm-are spedi-re spedisci segnal-are annunci-are
                envie responda partilh-ar compartilh-ar encaminh-ar avise diz diga dizer pergunt-ar
        convid-ar agradeç-a agradec-er
        escrev-er confirm-ar inform-ar comunic-ar respond-er public-ar
                stuur sturen stuur-door deel delen antwoord- beantwoord- vraag vragen zeg zeggen
        vertel- mail- laat-weten bericht-
                nodig-uit bedank- schrijf schrijven meld- app bel verstuur versturen geef-door
        informeer informeren feliciteer
        plaats- deel-mee bevestig- post-
    """,
    "pay": """
        begleich- zahl- bezahl- überweis- erstatt- kauf- bestell- spend- zahl-zurück
        règl-er régl-er rends rendre paie paye-r pay-er vir-er rembours-er achèt-er achet-er command-er vers-er
        devuelv-e devolver ingres-ar pag-ar pague transfier-e transferir reembols-ar compr-ar abon-ar pid-e
        pag-are bonific-are rimbors-are compr-are vers-are ordin-are
        transfir-a transfer-ir reembols-ar compr-ar encomend-ar
        betaal betalen maak-over koop kopen bestel bestellen stort storten
    """,
    "book": """
        miet- nimm buch- reservier- bestell-
        réserv-er lou-er retien-s retenir
        reserv-ar alquil-ar
        prenot-are affitt-are noleggi-are
        reserv-ar alug-ar marc-ar
        boek boeken reserveer reserveren huur huren
    """,
    "rate": """
        bewert- genehmig- approuv-er aprueb-ar aprob-ar valor-ar valut-are avali-ar beoordeel beoordelen
    """,
}
OTHER_PHRASES = {
    "change": r"(?:gib|donne|dale|geef)\b.{1,60}\b(?:zugriff|zugang|acc[eè]s|acceso|accesso|toegang|rechte|droits)\b",
    "create": r"(?:gib|donne|dale|geef)\b.{1,60}\b(?:zugriff|zugang|acc[eè]s|acceso|accesso|toegang|rechte|droits)\b",
    "send": r"bitte\b.{1,40}\bum\b|faire? part|fais(?:-lui)? savoir|hazle saber|fagli sapere|laat\b.{1,40}\bweten",
    "rate": r"\d\s?(?:sterne?|étoiles?|estrellas?|stelle|sterren)"
    r"|(?:schreib|laisse|deja|lascia|schrijf)\b.{0,40}\b(?:bewertung|avis|reseña|recensione|beoordeling)",
}
# forms that are nouns, or something else, in one of the languages: requests only at the beginning of a clause
_AMBIGUOUS = split_words(
    """
    abono abre activa active actives annonce app archive archives assigne augment avis avise avises base bases
    bau bel bericht berichten bitte bloc block blocks blocs bonifica borre cambi cambio cancel change changes
    claim clase class classe coma command commande commandes comment compra compras conferma confirm copia
    copias copie copies cre cree creer deel delen delete di dice dire dis diz doe edit end ends envie envies
    export facture fai fast file files fill form forme gera gere guarda haz huur import inform informe
    informes ingresa ingreso invite invites kopie list mail mails marca marche mark marque marques message
    messages met meta metas mete mette miete monte montes monti mov mova nota notas note notes noti open order
    ordina ordinare ordinate ordine ordini pack packe packs paga pagas pages pagi pago part partage partages
    parte partes pas pass passe passes pay paye pays plaats plan plane planes plans plant planta plante pone
    post poste posted postes posts prenota prepara prepare prepares program programa programas programme
    programmes public publica publico publics publie publique publiques quit quita quite quits range ranges
    rappel rappeler rappels recuerdo regala registre registrer remove report reporte reportes reports reserva
    reservas reserve reserves retire retires salva salve salves samen sauve segna segni send sends sent set
    sets sicher sign signal sire sortiert spende spenden stop sub suba sube subir teil teile teilen teilt
    termin termina termine termines termini texte tira tire tirer transforme tu tun valid valide valides vir
    vire virer vires
    """
)
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
_PARTICLES = split_words(
    """
    ab an auf aus aan af bei bescheid bij door ein fest frei goed hinzu hoch in mee mit nach om op raus toe
    uit um vast voor vor weg weiter weiten weten zu zurück zusammen
    """
)


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
TOOL_VERBS = {
    verb: family
    for family, verbs in {
        "remove": "destroy rm del unset prune close_account deactivate_account unpublish detach",
        "change": """
            upsert patch transition complete resolve toggle reorder reprioritize set_status modify configure enable
            disable lock unlock switch star unstar pin unpin sync mutate alter update
        """,
        "create": """
            submit append write log record register enroll enrol subscribe insert new put push upload import provision
            generate open clone fork bookmark capture store persist
        """,
        "send": "reply forward notify broadcast publish dm emit dispatch",
        "decide": "decide rsvp",
        "invite": "invite",
    }.items()
    for verb in verbs.split()
}
# what makes `write_…` and `submit_…` a message
MESSAGE_NOUNS = split_words(
    """
    mail mails email emails message messages reply dm chat post tweet text sms letter channel thread
    """
)
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
