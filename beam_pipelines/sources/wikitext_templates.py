"""The words of templates that stand in running text; all other templates are dropped.

What a template shows is a program on its wiki, which a dump of articles does not hold. The few that carry the words of
a sentence (`{{lang|fr|mot}}`, `{{convert|5|km}}`, `{{snd}}`) are rendered by the rules below, in the simplest form that
keeps the sentence whole; the others (infoboxes, navigation, citations, pronunciation) leave a hole.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Marks where something was dropped, so that brackets and spaces around it can be tidied up. It is no character of XML;
# neither is NUL, but that ends the text for mwparserfromhell.
HOLE = "\x01"
Arguments = dict[str, str]

# Longer templates are not read for their words: none of a sentence's is, and quotations are shorter.
_MAX_CHARACTERS = 20_000
# An argument ends at a bar outside of links.
_ARGUMENT = re.compile(r"((?:[^|\[]++|\[\[[^\[\]]*+\]\]|\[)*+)\|")
_NAMED = re.compile(r"\s*([^=<>\[\]{}'\"]{1,40}?)\s*=(.*)", re.S)

# Templates that show one argument: the first of these that is not blank ("last" is the last positional one).
_SHOWN = {
    "1": """
        nowrap; nobr; nobreak; nobold; noitalic; small; smaller; big; larger; em; strong; abbr; tooltip; math; mvar;
        var; sub; sup; sc; smallcaps; sic; linktext; vanchor; visible anchor; nq; unicode; script; polytonic; hebrew;
        iast; née; flag; flagu; flagcountry; railgauge; track gauge; angbr; code; kbd; samp; tt; chem2; ruby; ruby-ja;
        読み仮名; 要出典範囲; rom; le; typo; not a typo; proper name; underline; citation; "; zitat; ens; des; frs; las;
        its; ess; rus; pls; jas; zhs; audio; latin; texte; romaji; nihongo2; ''; souverain; souverain-; souverain2
    """,
    "1 2 3": "nihongo; nihongo3",
    "2 1": "lang; rtl-lang; langx; langue; en langue; color; font color; lang2",
    "last": "transl; transliteration; resize; fontcolor",
    "lt 1": "ill; interlanguage link; interlanguage link multi; illm; ill2",
    "label 1": "仮リンク",
    "texte fr 1": "lien",
    "3 2": "tsl; translink",
    "text quote 1": """
        quote; blockquote; cquote; quotation; quote box; bq; citation needed span; cns; fact span; incise
    """,
}
_SHOWN_KEYS = {name.strip(): keys.split() for keys, names in _SHOWN.items() for name in names.split(";")}
_LANGUAGE_TEMPLATE = re.compile(r"(?:lang|vol|link|internal link helper)[-/][a-z-]+")

# Templates that show their first argument between two texts.
_AROUND = {
    "us$": ("US$", ""), "£": ("£", ""), "€": ("€", ""), "¥": ("¥", ""), "e": ("×10^", ""), "euro": ("", " €"),
    "höhe": ("", " m"),
    **dict.fromkeys(("إنجليزية", "ألمانية", "فرنسية", "لاتينية", "إسبانية", "إيطالية", "روسية", "لغة-أل"), ("(", ")")),
}  # fmt: skip
# Templates that show all their positional arguments, joined.
_JOINED = {
    "date": " ", "date-": " ", "unité": " ", "nombre": " ", "tmp": " ", "heure": " h ", "currency": " ", "chem": "",
    "sfrac": "/", "dash year": "–",
}  # fmt: skip

# Templates that always show the same; as entities where the characters would be read as markup.
_FIXED = {
    "'": "&#39;", "'s": "&#39;s", "' \"": "&#39;&#34;", "\" '": "&#34;&#39;", "!": "&#124;", "=": "&#61;", "nbsp": " ",
    "space": " ", "spaces": " ", "thinsp": " ", "snd": " – ", "spnd": " – ", "spaced ndash": " – ", "ndash": "–",
    "spaced en dash": " – ", "en dash": "–", "endash": "–", "dash": "–", "mdash": "—", "em dash": "—", "emdash": "—",
    "mdashb": "—", "spaced mdash": " — ", "·": " · ", "middot": " · ", "•": " • ", "eqm": " = ", "etc.": "etc.",
    "av jc": "av. J.-C.", "ap jc": "apr. J.-C.", "n°": "n° ", "pi": "π", "degree": "°", "prime": "′",
}  # fmt: skip
# French ordinals and centuries show their own name: {{XIXe siècle}}, {{1er|janvier}}.
_ORDINAL = re.compile(r"(?:\d+|[IVXLC]+)(?:er|re|e|ème)(?: siècle)?")
_SHIPS = ("uss", "hms", "hmcs", "hmas", "hmnzs", "ss", "ms", "mv", "rms", "hmt", "usns", "usat", "sms", "uscgc")

_NUMBER = re.compile(r"[-+−]?[\d., ]*\d(?:[\d.,/+]*)")
# Between two values of {{convert}}, and what it shows there.
_RANGES = {"-": "–", "–": "–", "to": " to ", "and": " and ", "or": " or ", "x": " × ", "by": " by ", "±": " ± ",
           "+/-": " ± ", "to(-)": " to ", "and(-)": " and "}  # fmt: skip
_UNITS = {"C": "°C", "F": "°F", "sqmi": "sq mi", "mi2": "sq mi", "sqkm": "km²", "km2": "km²", "m2": "m²", "m3": "m³",
          "sqft": "sq ft", "ft2": "sq ft", "kph": "km/h"}  # fmt: skip
_FIRST_UNITS = {"ft": "in", "lb": "oz", "st": "lb"}
_POWER = re.compile(r"(e[369])(\D+)")
_POWERS = {"e3": "thousand", "e6": "million", "e9": "billion"}
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip


def template_text(content: str) -> str:
    """Returns the words a template shows.

    Args:
        content: what stands between `{{` and `}}`, free of other templates.

    Returns:
        Wikitext (links are as they were), or `HOLE` for a template that is dropped.
    """
    title, _, rest = content.partition("|")
    title = " ".join(title.replace("_", " ").split())
    name = title.lower()
    if name in _FIXED:
        return _FIXED[name]
    if name.startswith("formatnum:"):
        return title[len("formatnum:") :].strip() or HOLE
    shown = _SHOWN_KEYS.get(name) or (["1"] if _LANGUAGE_TEMPLATE.fullmatch(name) else None)
    composed = _COMPOSED.get(name) or (_ordinal if _ORDINAL.fullmatch(title) else None)
    if not (shown or composed or name in _JOINED or name in _AROUND) or len(content) > _MAX_CHARACTERS:
        return HOLE
    arguments = _arguments(rest)
    if shown:
        return next((text for key in shown if (text := arguments.get(key, ""))), HOLE)
    if composed:
        return composed(title, arguments) or HOLE
    if name in _JOINED:
        return _JOINED[name].join(_positional(arguments)) or HOLE
    text = arguments.get("1", "")
    return text.join(_AROUND[name]) if text else HOLE


def _arguments(content: str) -> Arguments:
    """Returns the arguments by name, the positional ones by number; `last` is the last positional one."""
    arguments: Arguments = {}
    count = 0
    for text in _ARGUMENT.findall(content + "|"):
        named = _NAMED.match(text) if "=" in text else None
        if named:
            arguments[named[1]] = named[2].strip()
            continue
        count += 1
        arguments[str(count)] = text.strip()
        arguments["last"] = text.strip() or arguments.get("last", "")
    return arguments


def _positional(arguments: Arguments) -> list[str]:
    return [text for key, text in arguments.items() if key.isdecimal() and text]


def _convert(_: str, arguments: Arguments) -> str:
    """Shows the value as given: numbers, what joins them, and the first unit (two of them in 5 ft 3 in)."""
    words = _positional(arguments)
    shown = ""
    for index, word in enumerate(words):
        if word in _RANGES and shown:
            shown += _RANGES[word]
        elif _NUMBER.fullmatch(word) and not shown[-1:].isdigit():
            shown += word
        else:
            shown += " " + _unit(word) if shown[-1:].isdigit() and not _NUMBER.fullmatch(word) else ""
            if word in _FIRST_UNITS and words[index + 2 : index + 3] == [_FIRST_UNITS[word]]:
                shown += f" {words[index + 1]} {words[index + 2]}"
            break
    return shown


def _unit(word: str) -> str:
    power = _POWER.fullmatch(word)
    return f"{_POWERS[power[1]]} {_unit(power[2])}" if power else _UNITS.get(word, word)


def _as_of(title: str, arguments: Arguments) -> str:
    if arguments.get("alt"):
        return arguments["alt"]
    date = _positional(arguments)
    if len(date) > 1 and date[1].isdecimal() and 1 <= int(date[1]) <= len(_MONTHS):
        date[1] = _MONTHS[int(date[1]) - 1]
    start = "as of" if arguments.get("lc") or arguments.get("since") else "As of"
    return f"{start} {' '.join(reversed(date[:3]))}" if date else ""


def _value(_: str, arguments: Arguments) -> str:
    power = f"×10^{arguments['e']}" if arguments.get("e") else ""
    unit = " " + arguments["u"] if arguments.get("u") else ""
    return arguments["1"] + power + unit if arguments.get("1") else ""


def _ship(title: str, arguments: Arguments) -> str:
    words = _positional(arguments)
    return " ".join(words[:2] if title.lower() == "ship" else [title.upper(), *words[:1]])


def _ordinal(title: str, arguments: Arguments) -> str:
    return f"{title} {arguments.get('1', '')}".strip()


def _century(_: str, arguments: Arguments) -> str:
    number = arguments.get("1", "")
    return f"{number}{arguments.get('2') or 'e'} siècle" if number else ""


def _circa(_: str, arguments: Arguments) -> str:
    return "c. " + "–".join(_positional(arguments))


def _fraction(_: str, arguments: Arguments) -> str:
    words = _positional(arguments)
    return " ".join([*words[:-2], "/".join(words[-2:])])


_COMPOSED: dict[str, Callable[[str, Arguments], str]] = {
    "convert": _convert, "cvt": _convert, "as of": _as_of, "val": _value, "frac": _fraction, "fraction": _fraction,
    "s": _century, "s-": _century, "circa": _circa, "c.": _circa, **dict.fromkeys(("ship", *_SHIPS), _ship),
}  # fmt: skip
