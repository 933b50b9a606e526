"""Templates of the Portuguese Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    convert,
    drop,
    drop_matching,
    merged,
    names_of,
    quantity,
    show,
    surround,
)

_MONTHS = ("janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro",
           "novembro", "dezembro")  # fmt: skip


def _date(_: str, arguments: Arguments) -> str:
    day, month, year = (arguments.get(str(number), "").lstrip("0") for number in (1, 2, 3))
    if month.isdecimal() and 1 <= int(month) <= len(_MONTHS):
        month = _MONTHS[int(month) - 1]
    return " de ".join(filter(None, (day, month, year)))


TEMPLATES = merged(
    show(
        "1",
        """
        carece de fontes; fmtn; formatnum; versalete; citação; ilc; link; sem fonte; quem?; quando?; nowrap
        """,
    ),
    show("2 1", "lang; língua"),
    surround("século ", "", "séc; século"),
    surround("R$ ", "", "r$"),
    surround("×10^", "", "e"),
    dict.fromkeys(names_of("dtlink; dtext; data"), _date),
    {"unidade": quantity, "converter": convert, "convert": convert},
    drop(
        """
        nota de rodapé; nre; ver desambiguação; artigo principal; vt; ver também; portal; mais fontes; citar web;
        citar livro; pepb; afi; bra; por; flag; flagicon; esboço; harvy; sfn; ligação inativa; info;
        controle de autoria; dn
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r"citar .*|info/.*|esboço.*|ver .*"),)
