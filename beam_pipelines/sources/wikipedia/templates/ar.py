"""Templates of the Arabic Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import Patterns, drop, drop_matching, merged, show, surround

TEMPLATES = merged(
    surround("(", ")", "إنجليزية; ألمانية; فرنسية; لاتينية; إسبانية; إيطالية; روسية; لغة-أل"),
    show("1", "اقتباس; مقتبس; وإو; شذرة"),
    show("2 1", "لغة"),
    drop(
        """
        مصدر; بحاجة لمصدر; محل شك; من؟; متى؟; مفصلة; أيضا; بوابة; شريط بوابات; وضح; ضبط استنادي; ضبط استشهاد; علم;
        مرجع
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r"استشهاد .*|صندوق .*|بذرة.*"),)
