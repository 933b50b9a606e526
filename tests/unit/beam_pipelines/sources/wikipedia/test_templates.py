"""Words of templates: by the tables of each language, and for unknown templates in sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.sources.corpus import reader_of
from beam_pipelines.sources.documents import Part, ReadSettings
from beam_pipelines.sources.wikipedia.names import WikiNames
from beam_pipelines.sources.wikipedia.templates import LANGUAGES, tables_of
from beam_pipelines.sources.wikipedia.wikitext import passages
from beam_pipelines.sources.wikipedia.wikitext_templates import HOLE, template_text
from tests.support.beam_pipelines.wiki_samples import END, HEAD, page, write_dump


def cleaned(wikitext: str, language: str = "") -> str:
    return "\n".join(passages(wikitext, WikiNames(language=language)))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("LANG|fr| mot ", "mot"), ("lang | fr | 2 = x", "x"), ("transl|ar|ALA|al-Jabr", "al-Jabr"),
        ("lang-grc-gre|λόγος|lógos", "λόγος"), ("convert|1,300|mi|km|0", "1,300 mi"),
        ("convert|87|e6acre|km2", "87 million acre"), ("convert|3|x|5|m|ft", "3 × 5 m"),
        ("convert|10|–|12|km", "10–12 km"), ("convert|1/2|in", "1/2 in"), ("convert||km", HOLE),
        ("val|6.24|e=18|u=m", "6.24×10^18 m"), ("val|5", "5"), ("snd", " – "), ("chem|H|2|O", "H2O"), ("CO2", "CO2"),
        ("frac|1|2", "1/2"), ("frac|1|1|2", "1 1/2"), ("frac|2", "2"), ("US$|5 million|2010", "US$5 million"),
        ("formatnum:8700471", "8700471"), ("link-en|本地|English", "本地"), ("quote|text=[[a|b]] c.", "[[a|b]] c."),
        ("nowrap|[[a|b]] {c} [d|e", "[[a|b]] {c} [d"), ("lang|fr", "fr"), ("Infobox|a=b", HOLE),
        ("cite web|url=x", HOLE), ("IPA-de|x", HOLE), ("", HOLE), ("|a", HOLE), ("quote|" + "x" * 30_000, HOLE),
        ("#if:a|b", HOLE), ("sfn|Smith|2000", HOLE),
    ],
)  # fmt: skip
def test_templates_of_all_wikis(content: str, expected: str) -> None:
    assert {template_text(content, tables_of(language)) for language in ("", *LANGUAGES)} == {expected}


@pytest.mark.parametrize(
    ("language", "content", "expected"),
    [
        ("en", "as of|2005|06|lc=y", "as of June 2005"), ("en", "As of|1999", "As of 1999"),
        ("en", "as of|2011|alt=in 2011", "in 2011"), ("en", "USS|Hornet|CV-12|6", "USS Hornet"),
        ("en", "ship|HMS|Ark Royal|91", "HMS Ark Royal"), ("en", "circa", "c. "), ("en", "c.|965|1040", "c. 965–1040"),
        ("en", "music|flat", "♭"), ("en", "citation needed|some words", HOLE), ("en", "e|6", "×10^6"),
        ("fr", "XIXe siècle", "XIXe siècle"), ("fr", "1er|janvier", "1er janvier"), ("fr", "s-|XXI", "XXIe siècle"),
        ("fr", "s|I|er", "Ier siècle"), ("fr", "-s|II", "IIe siècle av. J.-C."), ("fr", "heure|4|30", "4 h 30"),
        ("fr", "sp|XVII|e|et|XVIII|e|s", "XVIIe et XVIIIe siècles"), ("fr", "unité|5|km", "5 km"),
        ("fr", "unité|5|km|2", "5 km²"), ("fr", "unité|9.8|m|s|-2", "9.8 m s^-2"), ("fr", "n°", "n° "),
        ("fr", "lien|langue=en|trad=A|fr=B|texte=C", "C"), ("fr", "e", "e"), ("fr", "Mme|Curie", "Mme Curie"),
        ("de", "Höhe|115|DE-NHN", "115 m"), ("de", "euro", HOLE),
        ("de", "elS|λόγος", "λόγος"), ("de", "B|Mt|5|3", "Mt 5,3"),
        ("de", "Metadaten Einwohnerzahl DE-BE|Berlin", HOLE), ("ja", "仮リンク|ベルリン|en|B|label=市", "市"),
        ("zh", "bd|1879年|3月14日|1955年|4月18日", "（1879年3月14日－1955年4月18日）"),
        ("ar", "ألمانية|Spree", "(Spree)"), ("ltg", "vol-lv|augi", "augi"), ("es", "siglo|xix||s", "siglo XIX"),
        ("es", "siglo|V|a", "V a. C."), ("pt", "dtlink|1|5|1900", "1 de maio de 1900"), ("pl", "r|nazwa", HOLE),
        ("ru", "s|слово", "слово"), ("ru", "нп5|Страница|слово|en", "слово"),
        ("ru", "OldStyleDate|7 ноября|1917|25 октября", "25 октября (7 ноября) 1917"),
        ("it", "S|calciatori italiani", HOLE), ("it", "chiarire|x", "x"), ("it", "cn|una frase", "una frase"),
        ("it", "M|1|M|Hz", "1 MHz"), ("it", "M|5||m|2", "5 m²"), ("it", "M|300||€", "300 €"),
        ("it", "M|7|ul=km", "7 km"),
        ("it", "TA|10 m", "10 m"), ("it", "tutto attaccato|10 m", "10 m"), ("it", "maiuscoletto|xiv", "xiv"),
        ("it", "Exp|6", "<sup>6</sup>"), ("it", "Cita libro|titolo", HOLE), ("nl", "citaat|woord", "woord"),
    ],
)  # fmt: skip
def test_templates_of_one_language(language: str, content: str, expected: str) -> None:
    assert template_text(content, tables_of(language)) == expected


@pytest.mark.parametrize("language", ["", *(language for language in LANGUAGES if language != "fr")])
def test_one_letter_century_template_is_french_only(language: str) -> None:
    assert "siècle" not in cleaned("Au {{s|XIX}} mot.\n{{S|calciatori italiani}}", language)
    assert cleaned("Au {{s|XIX}} mot.", "fr") == "Au XIXe siècle mot."


def test_language_subtags_use_the_table_of_the_language() -> None:
    assert tables_of("fr-CA").templates == tables_of("fr").templates
    assert tables_of("xx").templates == tables_of("").templates


ROSSI = """{{Bio
|Nome = Mario
|Cognome = Rossi
|Sesso = M
|LuogoNascita = Roma
|GiornoMeseNascita = 1º gennaio
|AnnoNascita = 1900
|LuogoMorte = [[Milano]]
|GiornoMeseMorte = 2 maggio
|AnnoMorte = 1980
|Epoca = 1900
|Attività = scrittore
|Attività2 = politico
|Attività3 = regista
|Nazionalità = italiano
|Immagine = Mario Rossi.jpg
}}
"""
PROULX = """{{Bio
|Nome = Annie
|Cognome = Proulx
|PostCognomeVirgola = nata '''Edna'''
|PreData = /pruː/
|Sesso = F
|LuogoNascita = Norwich
|LuogoNascitaLink = Norwich (Connecticut)
|GiornoMeseNascita = 22 agosto
|AnnoNascita = 1935
|Attività = attrice
|AttivitàAltre = , autrice e {{chiarire|poetessa}}
|Nazionalità = statunitense
|PostNazionalità = , nota per i ''romanzi''
}}"""


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        (ROSSI + "Visse a Pisa.",
         "Mario Rossi (Roma, 1º gennaio 1900 – Milano, 2 maggio 1980) è stato uno scrittore, politico e regista "
         "italiano. Visse a Pisa."),
        (PROULX,
         "Annie Proulx, nata Edna (/pruː/; Norwich, 22 agosto 1935) è un'attrice, autrice e poetessa statunitense, "
         "nota per i romanzi."),
        ("{{Bio|Nome=Ugo|AnnoMorte=?|FineIncipit=fu re dei Goti}}", "Ugo (...) fu re dei Goti."),
        ("{{Bio|Nome=Kim|Cognome=Lee|CognomePrima=si|Sesso=F|Attività=pittrice|Punto=no}}, dice.",
         "Lee Kim è una pittrice, dice."),
        ("{{Bio|Sesso=F}}Testo.", "Testo."),
    ],
)  # fmt: skip
def test_italian_biographies_begin_with_their_sentence(wikitext: str, expected: str) -> None:
    assert cleaned(wikitext, "it") == expected


def test_wrapped_italian_words_are_kept() -> None:
    page = "Un {{chiarire|fatto}} e {{cn|una frase}} a {{M|1|M|Hz}}, 10{{Exp|6}} t di {{CO2}}; {{maiuscoletto|xiv}}"
    assert cleaned(page + " e {{TA|a b}}.", "it") == "Un fatto e una frase a 1 MHz, 10^6 t di CO2; xiv e a b."


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("Una {{ignoto|parola rara}} qui.", "Una parola rara qui."),
        ("Una {{ignoto|parola|nota}} qui.", "Una parola qui."),
        ("L'{{ignoto|isola}} ''{{ignoto|isola}}'' ({{ignoto|isola}} bella).", "L'isola isola (isola bella)."),
        ("{{ignoto|Una parola}}, che segue.", "Una parola, che segue."), ("Una {{ignoto|[[casa|case]]}}.", "Una case."),
        ("Una {{x|10<sup>6</sup> parole}}.", "Una 10^6 parole."), ("{{x|Слово}}, ещё.", "Слово, ещё."),
        ("Una {{a|casa}} {{b|bianca}}.", "Una casa bianca."), ("词语{{未知|中文词语}}在这里。", "词语中文词语在这里。"),
        # Notes follow their word without a space; parentheses are a pair of brackets.
        ("Una frase.{{ignoto|nota}} Altra{{ignoto|nota}}.", "Una frase. Altra."),
        ("''Una''{{ignoto|nota}} qui.", "Una qui."),
        ("Una frase ({{ignoto|lontana}}) qui.", "Una frase qui."), ("词语{{未知|note}}在这里。", "词语在这里。"),
        # Arguments that are not prose.
        ("A {{x|foto.jpg}} b.", "A b."), ("A {{x|12}} b.", "A b."), ("A {{x|ITA}} b.", "A b."),
        ("A {{x|DE-BE}} b.", "A b."),
        ("A {{x|a=b}} b.", "A b."), ("A {{x|#ff0000}} b.", "A b."), ("A {{x|https://a.b}} b.", "A b."),
        ("A {{x|ˈroːma}} b.", "A b."), ("A {{x|type:city}} b.", "A b."), ("A {{x}} b.", "A b."),
        ("A {{x|\nb\n}} c.", "A c."),
        # Blocks.
        ("{{ignoto|Una parola}}\nTesto.", "Testo."), ("{{ignoto|Una parola}} [[Category:X]]\nTesto.", "Testo."),
        ("{{ignoto|Una parola}} {{altro|parola}}\nTesto.", "Testo."), ("{{ignoto|Una parola}} Testo.", "Testo."),
        ("Testo.\n{{ignoto|Una parola}}", "Testo."), ("{{Infobox|\n| a = b {{c|parola}} d\n}}\nTesto.", "Testo."),
    ],
)  # fmt: skip
def test_unknown_templates_keep_the_words_of_a_sentence(wikitext: str, expected: str) -> None:
    assert cleaned(wikitext) == expected


@pytest.mark.parametrize(
    ("attribute", "database", "language", "expected"),
    [
        (' xml:lang="fr"', "itwiki", "it", "Au XIXe siècle mot."),
        ("", "frwiki", "it", "Au XIXe siècle mot."),
        ("", "zh_yuewiki", "fr", "Au mot."),
        ("", "wiki", "fr", "Au XIXe siècle mot."),
        (' xml:lang="it"', "itwiki", "fr", "Au mot."),
        ("", "", "", "Au mot."),
    ],
)
def test_head_of_the_dump_selects_the_templates(
    tmp_path: Path, attribute: str, database: str, language: str, expected: str
) -> None:
    head = HEAD.decode().replace(' xml:lang="ltg"', attribute).replace("ltgwiki", database).encode()
    path = write_dump(tmp_path / "wiki.xml", head + page(1, "Au {{s|XIX}} mot.") + END)
    found = list(reader_of("wikipedia", language or "none", ReadSettings()).read(Part(str(path))))
    assert found[0].paragraphs == (expected,)
