"""Templates of the English Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    drop,
    drop_matching,
    fixed,
    join,
    merged,
    positional,
    show,
    surround,
)

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_SHIPS = "uss; hms; hmcs; hmas; hmnzs; ss; ms; mv; rms; hmt; usns; usat; sms; uscgc"
_SIGNS = {"flat": "♭", "sharp": "♯", "natural": "♮"}


def _as_of(_: str, arguments: Arguments) -> str:
    if arguments.get("alt"):
        return arguments["alt"]
    date = positional(arguments)
    if len(date) > 1 and date[1].isdecimal() and 1 <= int(date[1]) <= len(_MONTHS):
        date[1] = _MONTHS[int(date[1]) - 1]
    start = "as of" if arguments.get("lc") or arguments.get("since") else "As of"
    return f"{start} {' '.join(reversed(date[:3]))}" if date else ""


def _ship(title: str, arguments: Arguments) -> str:
    words = positional(arguments)
    return " ".join(words[:2] if title.lower() == "ship" else [title.upper(), *words[:1]])


def _circa(_: str, arguments: Arguments) -> str:
    return "c. " + "–".join(positional(arguments))


def _music(_: str, arguments: Arguments) -> str:
    return _SIGNS.get(arguments.get("1", ""), "")


TEMPLATES = merged(
    show(
        "1",
        """
        var; sc; sc1; sc2; smallcaps2; nq; née; flag; flagu; flagcountry; country; railgauge; track gauge; tt; rom;
        le; proper name; "; ''; emphasis; bold; italics correction; format price; formatnum; not typo;
        notatypo; lang2; start date; end date; film date; text; allcaps; no wrap; nowrap text; nwr; mono
        """,
    ),
    show("text quote 1", "citation needed span; cns; fact span; clarify span; disputed span; specify span; when span"),
    surround("£", "", "£; gbp"),
    surround("€", "", "€; euro; eur"),
    surround("¥", "", "¥; jpy"),
    surround("×10^", "", "e"),
    surround("⟨", "⟩", "vr"),
    surround("U.S. Patent ", "", "us patent"),
    surround("No. ", "", "no."),
    join(" ", "currency; script/arabic; script/hebrew; oldstyledate"),
    join("–", "dash year"),
    fixed("&#39;s", "'s"),
    fixed("&#39;&#34;", "' \""),
    fixed("&#34;&#39;", "\" '"),
    fixed("&#34;", '-"'),
    fixed("—", "mdashb"),
    fixed(" — ", "spaced mdash"),
    fixed(" = ", "eqm"),
    fixed("etc.", "etc."),
    {"as of": _as_of, "circa": _circa, "c.": _circa, "ca": _circa, "music": _music},
    dict.fromkeys(["ship", *(name.strip() for name in _SHIPS.split(";"))], _ship),
    # Marks of doubt, hatnotes and other templates whose argument is a comment on the text.
    drop(
        """
        citation needed; cn; fact; clarify; when; who; which; where; by whom; according to whom; vague; dubious;
        huh; why; explain; specify; page needed; verify source; failed verification; better source;
        better source needed; full; full citation needed; unreliable source; unreliable source?; update inline;
        update after; disputed inline; not in citation given; weasel-inline; pov-inline; synthesis-inline;
        undue-inline; quantify; refimprove; about; for; other uses; redirect; distinguish; hatnote; main article;
        more; further information; cite quran; bibleref; bibleverse; pop density; ec number;
        sister project links; in lang; subject bar; death date; birth date; death date and age; birth date and age;
        colorbox; color box; hidden; flagathlete
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r".*needed|.* inline|.*-inline|use .* dates|use .* english|.* stub|about.*"),)
