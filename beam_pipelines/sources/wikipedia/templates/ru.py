"""Templates of the Russian Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    drop,
    drop_matching,
    fixed,
    fraction,
    join,
    merged,
    names_of,
    show,
    surround,
)


def _old_style(_: str, arguments: Arguments) -> str:
    """Returns a date of both calendars: 25 октября (7 ноября) 1917."""
    old, new, year = (arguments.get(key, "") for key in ("3", "1", "2"))
    return f"{old} ({new}) {year}" if old and new and year else f"{new} {year}".strip()


TEMPLATES = merged(
    show(
        "1",
        """
        s; nobr; nowrap; число; comment; подсказка; abbr; нет аи; уточнить; кто; когда; где; какой; цитата;
        флагификация; капитель; разрядка; не переведено текст; прояснить; нет источника; текст; начало цитаты;
        формат числа; формула
        """,
    ),
    show(
        "2 1",
        """
        нп; нп1; нп2; нп3; нп4; нп5; не переведено; не переведено 2; не переведено 3; не переведено 5; iw; lang;
        цвет
        """,
    ),
    join(" ", "num; ед"),
    dict.fromkeys(names_of("oldstyledate; олдстайл; старый стиль"), _old_style),
    {"дробь": fraction},
    surround("×10^", "", "e"),
    fixed("№ ", "№"),
    drop(
        """
        r; мфа; ref-en; ref-ru; ref-de; ref-fr; флаг; флаг сша; флаг россии; сс; сс2; сс3; вт-эсбе; основная статья;
        main; см. также; другие значения; значения; переадресация; навигация; книга; статья; cite web; примечания;
        координаты; портал; нет ссылок; refn; sfn; sfn0; карточка; якорь; возраст; дата рождения; дата смерти;
        тёзки
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r"ref-.*|флаг .*|карточка.*|внешние .*|вт-.*|ребс.*"),)
