"""Templates of the Italian Wikipedia."""

from __future__ import annotations

import re

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    convert,
    drop,
    drop_matching,
    fixed,
    fraction,
    merged,
    raised,
    show,
    surround,
    value,
)

_LINK_MARKS = re.compile(r"\[\[(?:[^|\[\]]*\|)?|[\[\]'\"]")
# Initial letters of masculine words that take `uno`.
_UNO = re.compile(r"s[^aeiou\W]|z|ps|pn|gn|x|y")
_UNKNOWN_DATE = {"?": "..."}


def _measure(title: str, arguments: Arguments) -> str:
    """Returns a number, the prefix of its unit and the unit: `M|1|M|Hz` is 1 MHz, `M|5||m|2` is 5 m²."""
    unit = arguments.get("2", "") + arguments.get("3", "")
    return value(title, arguments | {"u": raised(unit, arguments.get("4", ""))} if unit else arguments)


def _bio(_: str, arguments: Arguments) -> str:
    """Returns the first sentence of a biography, which {{Bio}} shows.

    Mario Rossi (Roma, 1 gennaio 1900 – Milano, 2 maggio 1980) è stato un politico e avvocato italiano.
    """
    given, family = arguments.get("Nome", ""), arguments.get("Cognome", "")
    names = [family, given] if arguments.get("CognomePrima") else [given, family]
    shown = " ".join(word for word in (arguments.get("Titolo", ""), *names) if word)
    if not shown:
        return ""
    shown = _append(shown, arguments.get("PostCognome", ""))
    if text := arguments.get("PostCognomeVirgola", ""):
        shown += f", {text}"
    if text := arguments.get("Pseudonimo", ""):
        shown += f", {_inflect('noto', arguments)} anche come {text}"
    dates = " – ".join(filter(None, (_event("Nascita", arguments), _event("Morte", arguments))))
    aside = "; ".join(filter(None, (arguments.get("PreData", ""), dates)))
    shown = _append(f"{shown} ({aside})" if aside else shown, _statement(arguments))
    # A space: the text of the article may follow at once.
    return shown + ("" if arguments.get("Punto", "").lower() == "no" or shown.endswith(".") else ".") + " "


def _event(kind: str, arguments: Arguments) -> str:
    """Returns place and date of birth (`Nascita`) or death (`Morte`)."""
    place = arguments.get(f"Luogo{kind}Alt") or arguments.get(f"Luogo{kind}", "")
    date = " ".join(filter(None, (arguments.get(f"GiornoMese{kind}", ""), arguments.get(f"Anno{kind}", ""))))
    return ", ".join(filter(None, (place, _UNKNOWN_DATE.get(date, date))))


def _statement(arguments: Arguments) -> str:
    """Returns the text after the brackets: the occupation of the person."""
    if text := arguments.get("FineIncipit", ""):
        return text
    work = _activities(arguments)
    if not work:
        return ""
    text = _with_article(_append(arguments.get("PreAttività", ""), work), arguments)
    text = _append(text, arguments.get("Nazionalità", ""))
    if country := arguments.get("NazionalitàNaturalizzato", ""):
        text += f" {_inflect('naturalizzato', arguments)} {country}"
    if country := arguments.get("Cittadinanza", ""):
        text += f" con cittadinanza {country}"
    verb = f"è {_inflect('stato', arguments)}" if _event("Morte", arguments) else "è"
    return _append(f"{verb} {text}", arguments.get("PostNazionalità", ""))


def _activities(arguments: Arguments) -> str:
    words = [text for key in ("Attività", "Attività2", "Attività3") if (text := arguments.get(key, ""))]
    if others := arguments.get("AttivitàAltre", ""):
        return _append(", ".join(words), others)
    return " e ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _with_article(text: str, arguments: Arguments) -> str:
    start = _LINK_MARKS.sub("", text).lower()
    if start.startswith(("un ", "uno ", "una ", "un'", "un’", "il ", "lo ", "la ", "l'", "l’")):
        return text
    if _is_feminine(arguments):
        return f"un'{text}" if start[:1] in "aeiou" else f"una {text}"
    return f"uno {text}" if _UNO.match(start) else f"un {text}"


def _inflect(word: str, arguments: Arguments) -> str:
    return word[:-1] + "a" if _is_feminine(arguments) else word


def _is_feminine(arguments: Arguments) -> bool:
    return arguments.get("Sesso", "").upper() == "F"


def _append(text: str, more: str) -> str:
    """Returns two texts with a space between them, except before a comma."""
    return f"{text} {more}".strip() if more[:1] not in (",", ";", ".") else text + more


TEMPLATES = merged(
    show(
        "1",
        """
        chiarire; cn; citazione necessaria; senza fonte; sf; non chiaro; chi; quando; quale; quanto; dove; ta;
        tutto attaccato; maiuscoletto; evidenziato; testo; barrato; sottolineato; piccolo; citazione; cit;
        virgolette; giapponese; formatnum
        """,
    ),
    show("2 1", "lingua; lang; colore; color"),
    surround("<sup>", "</sup>", "exp; apice"),
    surround("<sub>", "</sub>", "pedice"),
    surround("€ ", "", "euro; €"),
    fixed("a.C.", "a.c."),
    fixed("d.C.", "d.c."),
    {"bio": _bio, "m": _measure, "converti": convert, "fraz": fraction, "frazione": fraction},
    # References, stubs, notices and the names of languages before links.
    drop(
        """
        s; stub; a; c; d; e; f; l; nn; o; p; pov; recente; t; v; w; nd; nf; afi; ipa; cita; sfn; nota;
        nota disambigua; vedi anche; torna a; disambigua; interprogetto; portale; coord; bandiera; bandiera2; naz;
        simbolo; ita; età; controllo di autorità; collegamenti esterni; avvisounicode; categorie; references;
        note strette; div col; wikificare; organizzare; aiutare; tradotto da; template; box successione; lingue; dp;
        tassobox; film; colore link
        """
    ),
)

PATTERNS: Patterns = (
    drop_matching(
        r"cita .*|calcio .*|basket .*|pallavolo .*|bandiera.*|collegamento.*|portale.*|vedi .*|voce .*|in .*"
    ),
)
