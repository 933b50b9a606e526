"""Templates with the same meaning on all wikis.

Most of them spread with articles and modules that wikis copy from each other. A name with another meaning on one of the
larger Wikipedias belongs in the tables of the languages (`{{s|..}}` is a century in French, a stub in Italian and
unbreakable text in Russian).
"""

from __future__ import annotations

import re

from beam_pipelines.sources.wikipedia.templates.renderers import (
    convert,
    drop,
    drop_matching,
    fixed,
    fraction,
    join,
    merged,
    show,
    show_first,
    surround,
    value,
)

_FORMULAS = ("CO2", "H2O", "H2", "N2", "O2", "O3", "CH4", "NH3", "SO2", "NO2", "NOx", "H2S", "H2SO4", "HNO3", "CO2e")
TEMPLATES = merged(
    show(
        "1",
        """
        nowrap; nobr; nobreak; nobold; noitalic; small; smaller; big; larger; large; em; strong; abbr; tooltip;
        math; mvar; sub; sup; smallcaps; sic; linktext; vanchor; visible anchor; unicode; script; polytonic; hebrew;
        iast; code; kbd; samp; chem2; ruby; typo; not a typo; underline; nihongo2; angbr; nastaliq
        """,
    ),
    show("1 2 3", "nihongo; nihongo3; nihongo4"),
    show("2 1", "lang; rtl-lang; langx; color; font color"),
    show("last", "transl; transliteration; resize; fontcolor"),
    show("lt 1", "ill; interlanguage link; interlanguage link multi; illm; ill2"),
    show("2", "audio"),
    show("3 2", "tsl; translink"),
    show("text quote 1", "quote; blockquote; cquote; quotation; quote box; bq"),
    join("", "chem"),
    join("/", "sfrac"),
    surround("US$", "", "us$"),
    # Entities for characters that would be read as markup.
    fixed("&#39;", "'"),
    fixed("&#124;", "!"),
    fixed("&#61;", "="),
    fixed(" ", "nbsp; space; spaces; thinsp; sp"),
    fixed("–", "ndash; en dash; endash; dash"),
    fixed("—", "mdash; em dash; emdash"),
    fixed(" – ", "snd; snds; spnd; spaced ndash; spaced en dash"),
    fixed(" · ", "·; middot"),
    fixed(" • ", "•"),
    fixed("π", "pi"),
    fixed("°", "degree"),
    fixed("′", "prime"),
    *(fixed(formula, formula.lower()) for formula in _FORMULAS),
    {"convert": convert, "cvt": convert, "val": value, "frac": fraction, "fraction": fraction},
    # References, notes and pronunciation marks with arguments that look like text.
    drop(
        """
        r; rp; ref; refn; refs; refsup; efn; efn-ua; efn-la; sfn; sfnp; sfnm; sfnref; note; notetag; note label;
        reflist; ref label; notelist; ipa; ipac-en; ipalink; ipaslink; ipablink; respell; pronunciation; audio-ipa;
        coord; flagicon; flagicon image; flagdeco; anchor; main; see also; further; details; portal; commons;
        commonscat; commons category; wikidata; isbn; issn; doi; oclc; pmid; webarchive; dead link; zh; age;
        inflation; legend; legend2; nts; ntsh; sort; sortname; dts; hs; template; tl; tlx; defaultsort
        """
    ),
)

# Patterns of lower-case names, tried in order if the tables have no entry.
PATTERNS = (
    (re.compile(r"(?:lang|link|internal link helper)[-/][a-z-]+"), show_first),
    drop_matching(r"(?:ipac?|lang-ipa|api)-[a-z-]+|ipa .*"),
    drop_matching(r"cite .*|citation.*|harv.*|(?:info)?box .*|infobox.*|navbox.*|flag(?:icon)? .*"),
    drop_matching(r"[^:]*-stub|#.*|[a-z]+:.*|.*/.*|user .*|wikipedia .*|wikiproject .*"),
)
