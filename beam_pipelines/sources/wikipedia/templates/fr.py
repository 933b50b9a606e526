"""Templates of the French Wikipedia."""

from __future__ import annotations

import re

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    drop,
    drop_matching,
    fixed,
    join,
    merged,
    names_of,
    quantity,
    show,
    show_title,
    surround,
)

# The names of these templates are the text: {{XIXe siècle}}, {{1er|janvier}}.
_ORDINAL = re.compile(r"(?:\d+|[ivxlc]+)(?:er|re|e|ème)(?: siècle)?")
_TITLES = names_of("m.; mm.; mme; mmes; mlle; dr; pr; mgr")


def _century(title: str, arguments: Arguments) -> str:
    number = arguments.get("1", "")
    era = " av. J.-C." if title.startswith("-") else ""
    return f"{number}{arguments.get('2') or 'e'} siècle{era}" if number else ""


def _centuries(_: str, arguments: Arguments) -> str:
    """Returns two centuries: `sp|XVII|e|et|XVIII|e|s` is XVIIe et XVIIIe siècles."""
    words = [arguments.get(str(number), "") for number in range(1, 6)]
    return f"{words[0]}{words[1]} {words[2]} {words[3]}{words[4]} siècles" if all(words) else ""


def _number_sign(_: str, arguments: Arguments) -> str:
    """Returns the sign before a number, which is in the template or follows it."""
    return f"n° {arguments.get('1', '')}"


TEMPLATES = merged(
    show(
        "1",
        """
        citation; citation bloc; latin; texte; romaji; souverain; souverain-; souverain2; petites capitales; pc; sc;
        abréviation; abr; nobr; lnobr; terme défini; rouge; refnec; référence nécessaire; référence souhaitée;
        refsou; passage non neutre; passage évasif; pas clair; quoi; quand; qui; lequel; style à revoir; à sourcer;
        japonais; date de naissance-; drapeau2
        """,
    ),
    show("text quote 1", "incise"),
    show("2 1", "langue; en langue; lang; citation étrangère; citation bilingue; color"),
    show("texte fr 1", "lien"),
    surround("« ", " »", 'guil; guillemets; citation nécessaire; "'),
    surround("×10^", "", "x10"),
    surround("no ", "", "numéro"),
    surround("<sup>", "</sup>", "exp; exposant"),
    surround("<sub>", "</sub>", "ind; indice"),
    surround("", " °C", "tmp celsius"),
    join(" ", "date; date-; date de naissance; date de décès; nombre; tmp; currency"),
    join(" h ", "heure"),
    fixed("e", "e; ème"),
    fixed("er", "er"),
    fixed("re", "re"),
    fixed("av. J.-C.", "av jc; av. j.-c."),
    fixed("apr. J.-C.", "ap jc; apr. j.-c."),
    fixed("Ier", "ier"),
    dict.fromkeys(names_of("s; s-; -s; -s-; siècle"), _century),
    dict.fromkeys(names_of("sp; sp-; -sp; -sp-"), _centuries),
    dict.fromkeys(names_of("unité; unité/2; nb"), quantity),
    dict.fromkeys(_TITLES, show_title),
    {"n°": _number_sign},
    drop(
        """
        api; msapi; prononciation; phon; p.; page; référence insuffisante; référence à confirmer;
        référence incomplète; note; harvsp; article détaillé; voir homonymes; confusion; homonyme; drapeau; portail;
        palette; ouvrage; article; lien web; ancre; coord; images; colonnes; début de colonnes; méta bandeau;
        à illustrer; source insuffisante; refa; sfn; écouter
        """
    ),
)

PATTERNS: Patterns = (
    (_ORDINAL, show_title),
    drop_matching(r"portail .*|palette .*|voir .*|ébauche.*|infobox.*|référence .*|carte .*"),
)
