"""Templates of the German Wikipedia."""

from __future__ import annotations

import re

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    drop,
    drop_matching,
    fixed,
    fraction,
    merged,
    positional,
    show,
    show_first,
    surround,
)


def _verse(_: str, arguments: Arguments) -> str:
    book, *numbers = positional(arguments) or [""]
    return f"{book} {','.join(numbers[:2])}".strip()


TEMPLATES = merged(
    show(
        "1", 'zitat; "; kapitälchen; nowrap; unicode; nobr; formatnum; formatnumber; farbe; fett; kursiv; sperrschrift'
    ),
    show("text 1", "zitat-en; zitat-fr; zitat-la; zitat-it"),
    show("2 1", "arf; fremdsprachig; lang"),
    surround("", " m", "höhe"),
    surround("×10^", "", "e"),
    surround("", " €", "euro"),
    {"bruch": fraction, "bibel": _verse, "b": _verse},
    fixed(" ", "0"),
    drop(
        """
        absatz; anker; audio; belege fehlen; belege; coordinate; fldez; hauptartikel; internetquelle; lautschrift;
        literatur; siehe auch; s. a.; portal; bildergalerie; begriffsklärungshinweis; dieser artikel; personendaten;
        normdaten; commonscat; sortkey; sort; überarbeiten; lückenhaft; wann; wer; quelle; nachweis; usa; deu; fra;
        ita; gbr; aut
        """
    ),
)

# {{enS|word}}, {{laS|word}}: a word after the name of its language.
PATTERNS: Patterns = (
    (re.compile(r"[a-z]{2,3}s"), show_first),
    drop_matching(r"metadaten .*|population .*|einwohnerzahl.*|navigationsleiste .*|quellen .*"),
)
