"""Templates of the Dutch Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import Patterns, drop, drop_matching, merged, show, surround

TEMPLATES = merged(
    show("1", "citaat; cquote; unicode; feit; nowrap; kleinkapitaal; formatnum; vertaald"),
    show("2 1", "lang; taal"),
    surround("€ ", "", "euro"),
    surround("×10^", "", "e"),
    drop(
        """
        bron?; wie?; wanneer?; ipa; appendix; coor title; coor; zie hoofdartikel; zie ook; zijbalk; beginnetje;
        bronvermelding; link portaal; portaal; dp; citeer web; citeer boek; vlag; vlagland; refsectie; uitklap;
        zie dp; zie artikel
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r"citeer .*|infobox.*|sidebar.*|vlag.*|zie .*"),)
