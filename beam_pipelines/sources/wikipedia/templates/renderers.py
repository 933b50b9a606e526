"""Building blocks of the template tables: parsed arguments, and renderers of the template text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

# Arguments by name, positional ones by number from "1"; "last" is the last non-blank positional argument.
Arguments = dict[str, str]
# Returns wikitext, empty if the template shows nothing. The first argument is the template's title as written.
Renderer = Callable[[str, Arguments], str]
Templates = dict[str, Renderer]
Patterns = tuple[tuple[re.Pattern[str], Renderer], ...]

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


def show(keys: str, names: str) -> Templates:
    """Builds entries that show one argument: the first non-blank one of `keys`."""
    wanted = keys.split()

    def render(_: str, arguments: Arguments) -> str:
        return next((text for key in wanted if (text := arguments.get(key, ""))), "")

    return dict.fromkeys(names_of(names), render)


def surround(before: str, after: str, names: str) -> Templates:
    """Builds entries that show their first argument between two texts."""

    def render(_: str, arguments: Arguments) -> str:
        text = arguments.get("1", "")
        return before + text + after if text else ""

    return dict.fromkeys(names_of(names), render)


def join(separator: str, names: str) -> Templates:
    """Builds entries that show all positional arguments, joined by a separator."""
    return dict.fromkeys(names_of(names), lambda _, arguments: separator.join(positional(arguments)))


def fixed(text: str, names: str) -> Templates:
    """Builds entries that show a fixed text."""
    return dict.fromkeys(names_of(names), lambda *_: text)


def drop(names: str) -> Templates:
    """Builds entries that show nothing, for templates whose first argument is not text of the article."""
    return dict.fromkeys(names_of(names), show_nothing)


def show_nothing(*_: object) -> str:
    """Returns an empty string."""
    return ""


def show_title(title: str, arguments: Arguments) -> str:
    """Returns the title of the template, followed by its first argument."""
    return f"{title} {arguments.get('1', '')}".strip()


def show_first(_: str, arguments: Arguments) -> str:
    """Returns the first argument."""
    return arguments.get("1", "")


def drop_matching(expression: str) -> tuple[re.Pattern[str], Renderer]:
    """Builds a pattern of lower-case names of templates that show nothing."""
    return re.compile(expression), show_nothing


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


def merged(*tables: Mapping[str, Renderer]) -> Templates:
    """Merges tables; of entries with the same name the last one is used."""
    result: Templates = {}
    for table in tables:
        result.update(table)
    return result
