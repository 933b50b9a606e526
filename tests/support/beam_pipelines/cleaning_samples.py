"""Texts in several scripts, and a plain Python reference for words."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterable, Sequence

from beam_pipelines.sources.documents import RawDocument

PROSE = {
    "en": "The river rises in the northern hills and, after a course of some forty miles, falls into the sea. "
    "Its valley was settled early; the oldest bridge dates from 1384 and is still in use.",
    "de": "Der Fluss entspringt in den nördlichen Hügeln und mündet nach etwa sechzig Kilometern ins Meer. "
    "Das Tal wurde früh besiedelt; die älteste Brücke stammt aus dem Jahr 1384 und wird noch benutzt.",
    "fr": "La rivière prend sa source dans les collines du nord et se jette dans la mer après une soixantaine de "
    "kilomètres. La vallée fut peuplée très tôt ; le plus vieux pont date de 1384 et sert encore.",
    "ru": "Река берёт начало в северных холмах и через шестьдесят километров впадает в море. Долина была заселена "
    "рано; самый старый мост построен в 1384 году и до сих пор используется.",
    "ar": "ينبع النهر من التلال الشمالية ويصب في البحر بعد مسافة ستين كيلومترا تقريبا. سُكن الوادي منذ زمن مبكر، "
    "ويعود أقدم جسر فيه إلى عام ١٣٨٤ وما زال مستخدما.",
    "hi": "नदी उत्तरी पहाड़ियों से निकलती है और लगभग साठ किलोमीटर बहने के बाद समुद्र में मिल जाती है। घाटी में लोग बहुत पहले बस गए थे; "
    "सबसे पुराना पुल १३८४ का है और आज भी काम में आता है।",
    "ja": "この川は北の丘陵に源を発し、約六十キロメートル流れて海に注ぐ。谷には早くから人が住み、最も古い橋は"
    "一三八四年のもので、「今も使われている」という。",
    "zh": "这条河发源于北部的丘陵，流经大约六十公里后注入大海。河谷很早就有人居住，"
    "最古老的桥建于一三八四年，至今仍在使用。",
}

# Prefixes of Unicode names of letters in scripts without spaces between words.
UNSPACED_NAMES = (
    "CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC", "HANGZHOU NUMERAL", "HIRAGANA", "HENTAIGANA",
    "KATAKANA", "HALFWIDTH KATAKANA", "VERTICAL KANA", "VERTICAL IDEOGRAPHIC", "MASU MARK", "THAI", "LAO", "TIBETAN",
    "MYANMAR", "KHMER",
)  # fmt: skip


def plain_words(text: str) -> list[str]:
    """Returns the words of `text`, found character by character."""
    words: list[str] = []
    apart, before_unspaced = True, False
    for character in text:
        category = unicodedata.category(character)
        if character.isspace():
            apart = True
        if character.isspace() or category[0] not in "LMN":
            continue
        of_block = unicodedata.name(character, "").startswith(UNSPACED_NAMES)
        letter = of_block and (category[0] == "L" or category == "Nl")
        mark = of_block and category[0] == "M"
        if apart or letter or (before_unspaced and not mark):
            words.append("")
        words[-1] += character
        apart, before_unspaced = False, letter or mark
    return words


def as_batch(documents: Iterable[Sequence[str]], source: int = 0) -> list[RawDocument]:
    """Returns documents of the paragraphs, with their indices as places."""
    return [
        RawDocument("sample.txt", f"line {number}", tuple(paragraphs), source=source)
        for number, paragraphs in enumerate(documents)
    ]


def random_words(rng: random.Random, count: int) -> list[str]:
    """Returns random words that almost never repeat a run of five."""
    return ["".join(rng.choices("abcdefghijklmnop", k=5)) for _ in range(count)]


def with_edits(rng: random.Random, words: Sequence[str], edits: int) -> list[str]:
    """Returns `words` with some of them replaced, far enough apart that each replacement changes five shingles."""
    places = rng.sample(range(len(words) // 10 - 1), edits)
    edited = list(words)
    for place in places:
        edited[place * 10 + 5] = "".join(rng.choices("qrstuvwxyz", k=6))
    return edited
