"""Arguments of templates, and renderers of their texts."""

from __future__ import annotations

import re
from collections.abc import Callable

# Arguments by name, positional ones by number from "1"; "last" is the last non-blank positional argument.
Arguments = dict[str, str]
# Returns wikitext, empty if the template shows nothing. The first argument is the template's title as written.
Renderer = Callable[[str, Arguments], str]
# A renderer, or a text with an argument, see `renderer`.
Rule = str | Renderer

# An argument ends at a bar outside of links.
_ARGUMENT = re.compile(r"((?:[^|\[]++|\[\[[^\[\]]*+\]\]|\[)*+)\|")
_NAMED = re.compile(r"\s*([^=<>\[\]{}'\"]{1,40}?)\s*=(.*)", re.S)

_NUMBER = re.compile(r"[-+−]?[\d., ]*\d(?:[\d.,/+]*)")
# Separators between two values of {{convert}}, and their text.
_RANGES = {"-": "–", "–": "–", "to": " to ", "and": " and ", "or": " or ", "x": " × ", "by": " by ", "±": " ± ",
           "+/-": " ± ", "to(-)": " to ", "and(-)": " and "}  # fmt: skip
_UNITS = {"C": "°C", "F": "°F", "sqmi": "sq mi", "mi2": "sq mi", "sqkm": "km²", "km2": "km²", "m2": "m²", "m3": "m³",
          "sqft": "sq ft", "ft2": "sq ft", "kph": "km/h"}  # fmt: skip
_FIRST_UNITS = {"ft": "in", "lb": "oz", "st": "lb"}
_POWER = re.compile(r"(e[369])(\D+)")
_POWERS = {"e3": "thousand", "e6": "million", "e9": "billion"}
_EXPONENT = re.compile(r"[-−+]?\d{1,3}")
_EXPONENTS = {"": "", "1": "", "2": "²", "3": "³"}
_ENGLISH_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                   "November", "December")  # fmt: skip
_PORTUGUESE_MONTHS = ("janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro",
                      "outubro", "novembro", "dezembro")  # fmt: skip


def parse_arguments(content: str) -> Arguments:
    """Parses the arguments of a template; `content` is the text after its title and the first bar."""
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


def positional(arguments: Arguments) -> list[str]:
    """Returns the non-blank positional arguments in order."""
    return [text for key, text in arguments.items() if key.isdecimal() and text]


def names_of(names: str) -> list[str]:
    """Returns the template names in a semicolon-separated list."""
    return [" ".join(name.split()) for name in names.split(";")]


def renderer(rule: Rule) -> Renderer:
    """Returns the renderer of a rule.

    `US${1}` shows the first argument after a text, `{text quote 1}` the first of three arguments that is not blank. A
    rule without braces is the text of the template, an empty rule drops it.
    """
    if not isinstance(rule, str):
        return rule
    if not rule:
        return show_nothing
    before, _, rest = rule.partition("{")
    keys, _, after = rest.partition("}")
    if not keys:
        return lambda *_: rule

    def render(_: str, arguments: Arguments) -> str:
        text = next((text for key in keys.split() if (text := arguments.get(key, ""))), "")
        return before + text + after if text else ""

    return render


def join(separator: str) -> Renderer:
    """Returns a renderer that shows all positional arguments, joined by a separator."""
    return lambda _, arguments: separator.join(positional(arguments))


def show_nothing(*_: object) -> str:
    """Returns an empty string."""
    return ""


def show_title(title: str, arguments: Arguments) -> str:
    """Returns the title of the template, followed by its first argument."""
    return f"{title} {arguments.get('1', '')}".strip()


def quantity(_: str, arguments: Arguments) -> str:
    """Returns a number and its unit with optional exponents: `unité|5|km|2` is 5 km²."""
    number, *units = positional(arguments) or [""]
    shown = number
    for unit in units:
        if _EXPONENT.fullmatch(unit) and shown != number:
            shown = raised(shown, unit)
        else:
            shown += f" {unit}"
    return shown


def raised(unit: str, exponent: str) -> str:
    """Returns a unit with its exponent: m², s^-1."""
    return unit + _EXPONENTS.get(exponent, f"^{exponent}")


def value(_: str, arguments: Arguments) -> str:
    """Returns a number with its power of ten and its unit, like {{val}}."""
    power = f"×10^{arguments['e']}" if arguments.get("e") else ""
    unit = arguments.get("u") or arguments.get("ul") or ""
    return f"{arguments['1']}{power} {unit}".rstrip() if arguments.get("1") else ""


def convert(_: str, arguments: Arguments) -> str:
    """Returns the value as written: numbers, their separators, and the first unit (two units in 5 ft 3 in)."""
    words = positional(arguments)
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


def fraction(_: str, arguments: Arguments) -> str:
    """Returns a fraction: `1 1/2` for three numbers, `1/2` for two."""
    words = positional(arguments)
    return " ".join([*words[:-2], "/".join(words[-2:])])


def _month(text: str, names: tuple[str, ...]) -> str:
    """Returns the name of the month if `text` is its number, else `text`."""
    return names[int(text) - 1] if text.isdecimal() and 1 <= int(text) <= len(names) else text


def as_of(_: str, arguments: Arguments) -> str:
    """Returns a date in English: `as of|2005|06|lc=y` is as of June 2005."""
    if arguments.get("alt"):
        return arguments["alt"]
    date = positional(arguments)
    date[1:2] = [_month(text, _ENGLISH_MONTHS) for text in date[1:2]]
    start = "as of" if arguments.get("lc") or arguments.get("since") else "As of"
    return f"{start} {' '.join(reversed(date[:3]))}" if date else ""


def ship(title: str, arguments: Arguments) -> str:
    """Returns the prefix and the name of a ship: `USS|Hornet|CV-12` is USS Hornet."""
    words = positional(arguments)
    return " ".join(words[:2] if title.lower() == "ship" else [title.upper(), *words[:1]])


def circa(_: str, arguments: Arguments) -> str:
    """Returns an approximate year or span of years in English: c. 965–1040."""
    return "c. " + "–".join(positional(arguments))


def music_sign(_: str, arguments: Arguments) -> str:
    """Returns the sign of an accidental: flat, sharp or natural."""
    return {"flat": "♭", "sharp": "♯", "natural": "♮"}.get(arguments.get("1", ""), "")


def bible_verse(_: str, arguments: Arguments) -> str:
    """Returns book, chapter and verse in German: Mt 5,3."""
    book, *numbers = positional(arguments) or [""]
    return f"{book} {','.join(numbers[:2])}".strip()


def spanish_century(_: str, arguments: Arguments) -> str:
    """Returns a century in Spanish: `siglo|xix||s` is siglo XIX, `siglo|V|a` is V a. C."""
    number = arguments.get("1", "").upper()
    era = {"a": " a. C.", "d": " d. C."}.get(arguments.get("2", "").lower(), "")
    return f"{'siglo ' if arguments.get('3') == 's' else ''}{number}{era}" if number else ""


def french_century(title: str, arguments: Arguments) -> str:
    """Returns a century in French: `s|I|er` is Ier siècle; `-s` is before Christ."""
    number = arguments.get("1", "")
    era = " av. J.-C." if title.startswith("-") else ""
    return f"{number}{arguments.get('2') or 'e'} siècle{era}" if number else ""


def french_centuries(_: str, arguments: Arguments) -> str:
    """Returns two centuries in French: `sp|XVII|e|et|XVIII|e|s` is XVIIe et XVIIIe siècles."""
    words = [arguments.get(str(number), "") for number in range(1, 6)]
    return f"{words[0]}{words[1]} {words[2]} {words[3]}{words[4]} siècles" if all(words) else ""


def number_sign(_: str, arguments: Arguments) -> str:
    """Returns the French sign before a number, which is in the template or follows it."""
    return f"n° {arguments.get('1', '')}"


def italian_measure(title: str, arguments: Arguments) -> str:
    """Returns a number, the prefix of its unit and the unit: `M|1|M|Hz` is 1 MHz, `M|5||m|2` is 5 m²."""
    unit = arguments.get("2", "") + arguments.get("3", "")
    return value(title, arguments | {"u": raised(unit, arguments.get("4", ""))} if unit else arguments)


def portuguese_date(_: str, arguments: Arguments) -> str:
    """Returns a date in Portuguese: `dtlink|1|5|1900` is 1 de maio de 1900."""
    day, month, year = (arguments.get(str(number), "").lstrip("0") for number in (1, 2, 3))
    return " de ".join(filter(None, (day, _month(month, _PORTUGUESE_MONTHS), year)))


def old_style_date(_: str, arguments: Arguments) -> str:
    """Returns a date of both calendars in Russian: 25 октября (7 ноября) 1917."""
    old, new, year = (arguments.get(key, "") for key in ("3", "1", "2"))
    return f"{old} ({new}) {year}" if old and new and year else f"{new} {year}".strip()


def chinese_life(_: str, arguments: Arguments) -> str:
    """Returns the dates of birth and death in brackets: （1879年3月14日－1955年4月18日）."""
    born = arguments.get("1", "") + arguments.get("2", "")
    died = arguments.get("3", "") + arguments.get("4", "")
    return f"（{born}－{died}）" if born or died else ""
