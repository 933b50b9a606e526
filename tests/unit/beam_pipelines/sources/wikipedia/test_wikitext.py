"""Passages of wikitext: single constructs, and hostile pages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.sources.wikipedia.names import WikiNames, is_disambiguation, is_redirect
from beam_pipelines.sources.wikipedia.wikitext import passages
from beam_pipelines.sources.wikipedia.wikitext_templates import HOLE

NAMES = WikiNames(language="en")
# Markup that no passage may contain.
LEFTOVERS = re.compile(rf"\{{\{{|\}}\}}|\[\[|\]\]|'''|\n|{HOLE}|  |(?<!\w)[(（]\s*[)）]|\s[,](?:\s|$)")


def cleaned(wikitext: str) -> str:
    return "\n".join(passages(wikitext, NAMES))


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("A '''bold''' and ''italic'' [[word]].", "A bold and italic word."),
        ("A [[target|label]], [[bus]]es, [[:fr:Mot|le mot]], [[#Part|part]].", "A label, buses, le mot, part."),
        ("See [[Star Trek: Voyager]] and [[wikt:word|word]].", "See Star Trek: Voyager and word."),
        ("One\ntwo.\n\nThree.", "One two.\nThree."),
        ("Text.<ref>Note [[x]]</ref> More<ref name=a /> text <ref name='b'>c</ref>.", "Text. More text."),
        ("One<ref>two <ref name=a/> three</ref> four.", "One four."),
        ("A<!-- no\n\n --> b.\n<!-- line -->\nC.", "A b. C."),
        ("== Heading ==\nText.\n=== Sub === \n* item\n# item\n: quote\n; term", "Text."),
        ("'''Pseudo heading'''\n\nText.", "Text."),
        ("Before\n{| class=x\n|-\n| a || b\n{|\n| nested\n|}\n|}\nAfter", "Before\nAfter"),
        ("Before\n<table><tr><td>a\nb<table>c</table></td></tr></table>\nAfter", "Before\nAfter"),
        ("Before <ul><li>one</li><li>two</li></ul> after", "Before\nafter"),
        ("[[File:a.jpg|thumb|A [[link|caption]] with [http://a.b more].]]Text.", "Text."),
        ("[[Datei:a|mini|<center>x</center>\n* y]]\nText [[Kategorie:Z]] here.", "Text here."),
        ("[[Unbekannt:a.svg|mini|Bild]]Text.", "Text."),
        ("Text.\n[[de:Wort]]\n[[zh-yue:字]]\n[[Category:Words]]", "Text."),
        ("A {{Infobox|a=[[b]]|c={{d|{{e}}}}}}word.", "A word."),
        (
            "Up to {{convert|5|km|mi}} or {{convert|5|ft|3|in}}; {{cvt|2|to|3|C}}.",
            "Up to 5 km or 5 ft 3 in; 2 to 3 °C.",
        ),
        ("The {{lang|fr|mot}}{{'s}} {{nowrap|[[a|b]]}} {{lang-de|Wort}}.", "The mot's b Wort."),
        ("{{nihongo|[[Kanji]]|漢字|kanji}} on {{currency|1|mai}}.", "Kanji on 1 mai."),
        ("A {{x}} b{{x}}, c {{x}}. D ({{x}}) e ({{x}}; f) (g, {{x}}) “{{x}}” h.", "A b, c. D e (f) (g) h."),
        ("A ({{x}} – {{x}}), b ( ) c (;) d ({{x}}, e, {{x}}, f).", "A, b c d (e, f)."),
        ("日本（{{x}}）は、{{x}}、国。", "日本は、国。"),
        ("A, {{x}}, b, <!-- -->, c – {{x}} – d, {{x}} – e.{{x}}. F (, g) (h, {{x}}).", "A, b, c – d – e. F (g) (h)."),
        (": formula\n, which shows it.", "which shows it."),
        ("printf() prints", "printf() prints"),
        ("Fish &amp; chips&nbsp;&ndash; &#65;&#x42; &unknown; AT&T", "Fish & chips – AB &unknown; AT&T"),
        ("H<sub>2</sub>O, 10<sup>6</sup>, 1<sup>st</sup><br>x", "H2O, 10^6, 1st x"),
        ("A <span title='b > c'>d</span> <small>(e)</small> <del>f</del> g.", "A d (e) g."),
        ("A <span style='display: none'>b <i>c</i></span>d.", "A d."),
        ("If a<b and <unknown>x</unknown> then 1 < 2.", "If a<b and <unknown>x</unknown> then 1 < 2."),
        ("So <math>n+1</math> and <math>\\frac{a}{b}</math>.", "So n+1 and."),
        ("A <nowiki>''b''</nowiki> <nowiki>[[c]]</nowiki><nowiki/> d.", "A ''b'' d."),
        ("A <code>x = 1</code> <syntaxhighlight lang=c>{{}}</syntaxhighlight> <pre>b</pre>.", "A x = 1."),
        ("<gallery>\nFile:a.jpg|b\n</gallery>\n<timeline>\nc\n</timeline>Text.", "Text."),
        ("<blockquote>One.</blockquote><p>Two.</p>", "One.\nTwo."),
        ("Links [http://a.b label], [//a.b], [https://a.b/c?d=e]; http://bare.org.", "Links label; http://bare.org."),
        ("__NOTOC__Text. __INHALTSVERZEICHNIS__", "Text."),
        ("----\nText.\n---- More.", "Text.\nMore."),
        (" short code\n  x = 1\nText.\n " + "Long line. " * 8, "Text. " + "Long line. " * 7 + "Long line."),
        ("l''''arbre''', ''a '''b'''''.", "l'arbre, a b."),
        ("L'''Aurore'' et '''gras'''.", "L'Aurore et gras."),
        ("-{zh-hans:计算机; zh-hant:電腦}- -{字}--{T|zh:x}-。", "计算机 字。"),
        ("{{{1|}}}Text {{{a}}}.", "Text."),
        ("Text.\r\n* item\r\n== H ==\r\nMore.", "Text.\nMore."),
        ("12 34\n\n...\n\nText.", "Text."),
        (f"A {HOLE}b.", "A b."),
    ],
)
def test_constructs(wikitext: str, expected: str) -> None:
    assert cleaned(wikitext) == expected


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("{{Infobox\n| a = b\nText.\n\n== H ==\nMore {{x}} text.", "Text.\nMore text."),
        ("{{Infobox\n| a\n== H ==\nText.\n}}\nMore.", "Text.\nMore."),
        ("One [[two three.\n\nFour [[five]].", "One two three.\nFour five."),
        ("One [[two|three.\n\n== H ==\nFour.]]", "One three.\nFour."),
        ("One [[File:a.jpg|thumb|two.\n\nThree.", "One\nThree."),
        ("One [[File:a.jpg|thumb|two.\n\nThree.\n\nFour.]]", "One\nThree.\nFour."),
        ("One<ref>two.\n\nThree<ref>x</ref>.", "One\nThree."),
        ("One<ref>two.\n\nThree.", "One\nThree."),
        ("One<!-- two.\n\nThree.", "One two.\nThree."),
        ("One <nowiki>two <gallery> three <math> four.", "One two three four."),
        ("One <small>two.\n\nThree</small>.", "One two.\nThree."),
        ("One }} two ]] three.", "One two three."),
        ("One ''two.\n\nThree'' four.", "One two.\nThree four."),
        ("{{cite|a</ref name=x> b}}Text.<ref>{{cite|</ref name='y'> z}}</ref> More.", "Text. More."),
    ],
)
def test_unclosed_markup_affects_only_its_line(wikitext: str, expected: str) -> None:
    assert cleaned(wikitext) == expected


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("{|\n| cell\n! head\nText.\n== H ==\nMore.\n|}", "More."),
        ("One.\n{| class=x\n|-\n| cell\nmore\n\nof it\n! head\n| last\nof all\n\nTwo.", "One.\nTwo."),
        ("{|\n| a\n{|\n| b\n|}\nstill a\n\nand\n|-\n| c\n\nText.", "Text."),
        ("{| class=x\nOne.\n\nTwo.", "One.\nTwo."),
        ("{|\n| a\nb\n\nOne.\n\n{|\n| c\n\nd\n|}\n\nTwo.", "One.\nTwo."),
        ("One.\n<table><tr><td>cell\nmore\n\n<td>two\nlines</td></tr>\n\nTwo.", "One.\nTwo."),
    ],
)
def test_cells_of_unclosed_tables_are_removed(wikitext: str, expected: str) -> None:
    assert cleaned(wikitext) == expected


@pytest.mark.parametrize(
    "word", ["redirect", "REDIRECT", "WEITERLEITUNG", "REDIRECTION", "تحويل", "転送", "重定向", "перенаправление"]
)
def test_redirects(word: str) -> None:
    assert is_redirect(f"#{word} [[Target]]")
    assert is_redirect(f" # {word}: [[Target#Part]]\n\nMore.")
    assert not is_redirect(f"# item\n#{word} [[Target]]")
    assert not is_redirect("#Item [[Target]]")


@pytest.mark.parametrize(
    ("title", "wikitext"),
    [
        ("Food (disambiguation)", ""), ("Berlin (Begriffsklärung)", ""), ("Mercure (homonymie)", ""),
        ("برلين (توضيح)", ""), ("बर्लिन (बहुविकल्पी)", ""), ("ベルリン (曖昧さ回避)", ""), ("柏林（消歧义）", ""),
        ("Rēzne (zeimeibu škiršona)", ""), ("Лев (значения)", ""), ("A", "{{disambiguation}}"),
        ("A", "* b\n{{Disambig|geo}}"), ("A", "{{Airport_disambiguation}}"), ("A", "{{ hndis |x}}"),
        ("A", "{{Begriffsklärung}}"), ("A", "{{Homonymie}}"), ("A", "{{توضيح}}"), ("A", "{{aimai}}"),
        ("A", "{{消歧义}}"), ("A", "{{Zeimeibu škiršona}}"), ("A", "{{неоднозначность}}"), ("A", "x __DISAMBIG__"),
    ],
)  # fmt: skip
def test_disambiguations(title: str, wikitext: str) -> None:
    assert is_disambiguation(title, wikitext)


@pytest.mark.parametrize(
    ("title", "wikitext"),
    [("Food (film)", ""), ("Disambiguation", ""), ("A", "[[x]]{{disambiguation needed}}"), ("A", "{{значения}}"),
     ("A", "{{other uses|Food (disambiguation)}}"), ("A", "{{وضح|3=برلين (توضيح)}}"),
     ("A", "{{Begriffsklärungshinweis}}")],
)  # fmt: skip
def test_links_to_a_disambiguation_do_not_make_one(title: str, wikitext: str) -> None:
    assert not is_disambiguation(title, wikitext)


def test_namespaces_of_a_wiki() -> None:
    assert cleaned("[[Klasė:a|x]] Text.") == "x Text."
    names = NAMES.with_local([(6, "Byla"), (14, "Klasė"), (1, "Aptarimas"), (0, " ")])
    assert passages("[[Klasė:a|x]][[Byla:b|thumb|c]] Text [[klasė:z]]s.", names) == ["Text s."]
    assert [names.namespace_of(title) for title in ("Aptarimas:A", "aptarimas :A", "A", "B: A")] == [1, 1, 0, 0]


HOSTILE = [
    "{{", "}}", "[[", "[[a|", "]]", "[[File:a|", "{|\n", "<!--", "<ref>", "<ref/>", "<math><gallery><pre>", "<table>",
    "<b>", "<span ", "'''a''b", "'", "{{x}}", "{{x}}, ", "({{x}}–", '"{{x}}', ", ", "(", "(,", "\n", "\n ", "=", "__A",
    "&a", "-{", "[http://a ", "{{{a", "!a\n", "[a ", "<li>", "<br>", "{{{{a}}", "{{\n", "[[a\n", "<ref name=",
    "{{lang|", "{{convert|5|-|", "a=", HOLE, "a {{a|b c}} ", "{|\n|a\n", "{|\n|a\n==b==\n", "<td>a\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_pages_are_parsed_in_bounded_time(piece: str) -> None:
    """With tens of thousands of opened or closed constructs, more than linear time would take minutes."""
    closing = piece.translate(str.maketrans("{[(<", "}])>"))[::-1]
    count = 30_000
    for page in (piece * count, piece * (count // 2) + closing * (count // 2), "x" + piece * count + "</ref>}}]]|}-->"):
        assert not any(LEFTOVERS.search(passage) for passage in passages(page, NAMES))
        assert is_disambiguation("a", page) is is_redirect(page) is False


def test_nesting_depth_is_limited() -> None:
    nested = "{{lang|a|" * 30 + "x" + "}}" * 30
    assert cleaned(f"A {nested}.") == "A x."
    assert cleaned("A {{lang|a|" * 500 + "x" + "}}" * 500) == "A"


TOKENS = [
    "{{", "}}", "[[", "]]", "|", "{|", "|}", "\n", "\n\n", "\n== H ==\n", "\n*", "''", "'''", "<ref>", "</ref>", "<!--",
    "-->", "<nowiki>", "</nowiki>", "<math>x</math>", "<br>", "<b>", "</b>", "<table>", "</table>", "<td>", "<div>",
    "word", "Foo bar.", "lang|fr|mot", "File:a.jpg|", "Category:X", "[http://a.b c]", "&nbsp;", "&lt;", "(", ")", ",",
    ".", " ", '"', "-{", "}-", "!", "{", "}", "[", "]",
]  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=50).map("".join))
@settings(deadline=None, max_examples=400)
def test_any_mixture_of_markup_is_removed(wikitext: str) -> None:
    for passage in passages(wikitext, NAMES):
        assert passage == passage.strip()
        assert not LEFTOVERS.search(passage), wikitext


@given(st.lists(st.text("abcdefg é中.,0-9", min_size=1, max_size=80).map(str.strip), min_size=1, max_size=5))
@settings(deadline=None, max_examples=100)
def test_plain_text_is_not_changed(lines: list[str]) -> None:
    expected = passages("\n\n".join(lines), NAMES)
    assert passages("\n\n".join(expected), NAMES) == expected
    letters = "".join(lines).replace(" ", "")
    kept = "".join(expected).replace(" ", "")
    assert [c for c in kept if c.isalpha()] == [c for c in letters if c.isalpha()]
