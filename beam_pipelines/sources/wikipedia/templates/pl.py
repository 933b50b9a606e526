"""Templates of the Polish Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import Patterns, drop, drop_matching, merged, show, surround

TEMPLATES = merged(
    show("1", "fakt; cytat; małe; unicode; kiedy; kto; jaki; państwo tekst; kapitaliki; nowrap; niejasne; sygn"),
    show("2 1", "link-interwiki; lang; j2"),
    surround("", " zł", "pln"),
    drop(
        """
        r; u; odn; j; język; ipa; ipa2; co; patrz; osobny artykuł; zobacz też; inne znaczenia; disambig; przypisy;
        flaga; państwo; dopracować; cytuj; cytuj stronę; cytuj książkę; portal; commons; koordynaty; spis treści;
        uwaga; ujednoznacznienie; zob
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r"cytuj .*|infobox.*|.* infobox|flaga.*|przypisy.*|język .*"),)
