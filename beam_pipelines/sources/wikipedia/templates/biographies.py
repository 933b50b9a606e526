"""The first sentence of an Italian biography, which the template {{Bio}} shows."""

from __future__ import annotations

import re

from beam_pipelines.sources.wikipedia.templates.renderers import Arguments

_LINK_MARKS = re.compile(r"\[\[(?:[^|\[\]]*\|)?|[\[\]'\"]")
# Initial letters of masculine words that take `uno`.
_UNO = re.compile(r"s[^aeiou\W]|z|ps|pn|gn|x|y")
_UNKNOWN_DATE = {"?": "..."}


def italian_biography(_: str, arguments: Arguments) -> str:
    """Returns the sentence, followed by a space, because the text of the article may follow at once.

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
