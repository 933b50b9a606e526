"""Template texts by language of the wiki: of each language the entries, and the patterns of all other names.

An entry is a rule (see `renderers.renderer`) and the names of its templates, separated by semicolons, in lower case.
Patterns of names are tried in order. Sources: the documentation pages of the templates on the wikis, and their use in
articles.

The entries of all wikis (the language `""`) are templates that spread with articles and modules, which wikis copy from
each other. A name with another meaning on one of the larger Wikipedias belongs in the tables of the languages
(`{{s|..}}` is a century in French, a stub in Italian and unbreakable text in Russian).
"""

from __future__ import annotations

from collections.abc import Mapping

from beam_pipelines.sources.wikipedia.templates.biographies import italian_biography
from beam_pipelines.sources.wikipedia.templates.renderers import (
    Rule,
    as_of,
    bible_verse,
    chinese_life,
    circa,
    convert,
    fraction,
    french_centuries,
    french_century,
    italian_measure,
    join,
    music_sign,
    number_sign,
    old_style_date,
    portuguese_date,
    quantity,
    ship,
    show_title,
    spanish_century,
    value,
)

_FORMULAS = ("CO2", "H2O", "H2", "N2", "O2", "O3", "CH4", "NH3", "SO2", "NO2", "NOx", "H2S", "H2SO4", "HNO3", "CO2e")
TABLES: dict[str, tuple[Mapping[Rule, str], Mapping[str, Rule]]] = {
    "": (
        {
            "{1}": """
                nowrap; nobr; nobreak; nobold; noitalic; small; smaller; big; larger; large; em; strong; abbr; tooltip;
                math; mvar; sub; sup; smallcaps; sic; linktext; vanchor; visible anchor; unicode; script; polytonic;
                hebrew; iast; code; kbd; samp; chem2; ruby; typo; not a typo; underline; nihongo2; angbr; nastaliq""",
            "{1 2 3}": "nihongo; nihongo3; nihongo4",
            "{2 1}": "lang; rtl-lang; langx; color; font color",
            "{last}": "transl; transliteration; resize; fontcolor",
            "{lt 1}": "ill; interlanguage link; interlanguage link multi; illm; ill2",
            "{2}": "audio",
            "{3 2}": "tsl; translink",
            "{text quote 1}": "quote; blockquote; cquote; quotation; quote box; bq",
            join(""): "chem",
            join("/"): "sfrac",
            "US${1}": "us$",
            # Entities for characters that would be read as markup.
            "&#39;": "'",
            "&#124;": "!",
            "&#61;": "=",
            " ": "nbsp; space; spaces; thinsp; sp",
            "–": "ndash; en dash; endash; dash",
            "—": "mdash; em dash; emdash",
            " – ": "snd; snds; spnd; spaced ndash; spaced en dash",
            " · ": "·; middot",
            " • ": "•",
            "π": "pi",
            "°": "degree",
            "′": "prime",
            **{formula: formula.lower() for formula in _FORMULAS},
            convert: "convert; cvt",
            value: "val",
            fraction: "frac; fraction",
            # References, notes and pronunciation marks with arguments that look like text.
            "": """
                r; rp; ref; refn; refs; refsup; efn; efn-ua; efn-la; sfn; sfnp; sfnm; sfnref; note; notetag; note label;
                reflist; ref label; notelist; ipa; ipac-en; ipalink; ipaslink; ipablink; respell; pronunciation;
                audio-ipa; coord; flagicon; flagicon image; flagdeco; anchor; main; see also; further; details; portal;
                commons; commonscat; commons category; wikidata; isbn; issn; doi; oclc; pmid; webarchive; dead link; zh;
                age; inflation; legend; legend2; nts; ntsh; sort; sortname; dts; hs; template; tl; tlx; defaultsort""",
        },
        {
            r"(?:lang|link|internal link helper)[-/][a-z-]+": "{1}",
            r"(?:ipac?|lang-ipa|api)-[a-z-]+|ipa .*": "",
            r"cite .*|citation.*|harv.*|(?:info)?box .*|infobox.*|navbox.*|flag(?:icon)? .*": "",
            r"[^:]*-stub|#.*|[a-z]+:.*|.*/.*|user .*|wikipedia .*|wikiproject .*": "",
        },
    ),
    "ar": (
        {
            "({1})": "إنجليزية; ألمانية; فرنسية; لاتينية; إسبانية; إيطالية; روسية; لغة-أل",
            "{1}": "اقتباس; مقتبس; وإو; شذرة",
            "{2 1}": "لغة",
            "": """
                مصدر; بحاجة لمصدر; محل شك; من؟; متى؟; مفصلة; أيضا; بوابة; شريط بوابات; وضح; ضبط استنادي; ضبط استشهاد;
                علم; مرجع""",
        },
        {r"استشهاد .*|صندوق .*|بذرة.*": ""},
    ),
    "de": (
        {
            "{1}": """
                zitat; "; kapitälchen; nowrap; unicode; nobr; formatnum; formatnumber; farbe; fett; kursiv;
                sperrschrift""",
            "{text 1}": "zitat-en; zitat-fr; zitat-la; zitat-it",
            "{2 1}": "arf; fremdsprachig; lang",
            "{1} m": "höhe",
            "×10^{1}": "e",
            "{1} €": "euro",
            fraction: "bruch",
            bible_verse: "bibel; b",
            " ": "0",
            "": """
                absatz; anker; audio; belege fehlen; belege; coordinate; fldez; hauptartikel; internetquelle;
                lautschrift; literatur; siehe auch; s. a.; portal; bildergalerie; begriffsklärungshinweis;
                dieser artikel; personendaten; normdaten; commonscat; sortkey; sort; überarbeiten; lückenhaft; wann;
                wer; quelle; nachweis; usa; deu; fra; ita; gbr; aut""",
        },
        # {{enS|word}}, {{laS|word}}: a word after the name of its language.
        {r"[a-z]{2,3}s": "{1}", r"metadaten .*|population .*|einwohnerzahl.*|navigationsleiste .*|quellen .*": ""},
    ),
    "en": (
        {
            "{1}": """
                var; sc; sc1; sc2; smallcaps2; nq; née; flag; flagu; flagcountry; country; railgauge; track gauge; tt;
                rom; le; proper name; "; ''; emphasis; bold; italics correction; format price; formatnum; not typo;
                notatypo; lang2; start date; end date; film date; text; allcaps; no wrap; nowrap text; nwr; mono""",
            "{text quote 1}": """
                citation needed span; cns; fact span; clarify span; disputed span; specify span; when span""",
            "£{1}": "£; gbp",
            "€{1}": "€; euro; eur",
            "¥{1}": "¥; jpy",
            "×10^{1}": "e",
            "⟨{1}⟩": "vr",
            "U.S. Patent {1}": "us patent",
            "No. {1}": "no.",
            join(" "): "currency; script/arabic; script/hebrew; oldstyledate",
            join("–"): "dash year",
            "&#39;s": "'s",
            "&#39;&#34;": "' \"",
            "&#34;&#39;": "\" '",
            "&#34;": '-"',
            "—": "mdashb",
            " — ": "spaced mdash",
            " = ": "eqm",
            "etc.": "etc.",
            as_of: "as of",
            circa: "circa; c.; ca",
            music_sign: "music",
            ship: "ship; uss; hms; hmcs; hmas; hmnzs; ss; ms; mv; rms; hmt; usns; usat; sms; uscgc",
            # Marks of doubt, hatnotes and other templates whose argument is a comment on the text.
            "": """
                citation needed; cn; fact; clarify; when; who; which; where; by whom; according to whom; vague; dubious;
                huh; why; explain; specify; page needed; verify source; failed verification; better source;
                better source needed; full; full citation needed; unreliable source; unreliable source?; update inline;
                update after; disputed inline; not in citation given; weasel-inline; pov-inline; synthesis-inline;
                undue-inline; quantify; refimprove; about; for; other uses; redirect; distinguish; hatnote;
                main article; more; further information; cite quran; bibleref; bibleverse; pop density; ec number;
                sister project links; in lang; subject bar; death date; birth date; death date and age;
                birth date and age; colorbox; color box; hidden; flagathlete""",
        },
        {r".*needed|.* inline|.*-inline|use .* dates|use .* english|.* stub|about.*": ""},
    ),
    "es": (
        {
            "{1}": """
                esd; versalita; versalitas; cita; demostrar; cuestionado; unidad de texto; nombre; may; negrita;
                formatnum""",
            "{2 1}": "lang; idioma; color",
            quantity: "unidad; nb",
            spanish_century: "siglo",
            convert: "convertir",
            fraction: "fracción",
            "×10^{1}": "e",
            "<sup>{1}</sup>": "exp; super",
            "a. C.": "ac; a. c.; a.c.",
            "d. C.": "dc; d. c.; d.c.",
            "n.º": "nº",
            "": """
                ap; afi; vt; vea; véase; añadir referencias; cita requerida; aclarar; quién; cuándo; dónde; cuál; refn;
                harvnp; bandera; bandera2; geodatos; ficha; cr; ncf; desambiguación; otros usos; redirige aquí;
                enlace roto; sin relevancia; obra citada; pb; portal; control de autoridades; cita libro; cita web;
                cita publicación; sic; página requerida""",
        },
        {r"cita .*|ficha .*|bandera.*|véase .*|artículo .*": ""},
    ),
    "fr": (
        {
            "{1}": """
                citation; citation bloc; latin; texte; romaji; souverain; souverain-; souverain2; petites capitales; pc;
                sc; abréviation; abr; nobr; lnobr; terme défini; rouge; refnec; référence nécessaire;
                référence souhaitée; refsou; passage non neutre; passage évasif; pas clair; quoi; quand; qui; lequel;
                style à revoir; à sourcer; japonais; date de naissance-; drapeau2""",
            "{text quote 1}": "incise",
            "{2 1}": "langue; en langue; lang; citation étrangère; citation bilingue; color",
            "{texte fr 1}": "lien",
            "« {1} »": 'guil; guillemets; citation nécessaire; "',
            "×10^{1}": "x10",
            "no {1}": "numéro",
            "<sup>{1}</sup>": "exp; exposant",
            "<sub>{1}</sub>": "ind; indice",
            "{1} °C": "tmp celsius",
            join(" "): "date; date-; date de naissance; date de décès; nombre; tmp; currency",
            join(" h "): "heure",
            "e": "e; ème",
            "er": "er",
            "re": "re",
            "av. J.-C.": "av jc; av. j.-c.",
            "apr. J.-C.": "ap jc; apr. j.-c.",
            "Ier": "ier",
            french_century: "s; s-; -s; -s-; siècle",
            french_centuries: "sp; sp-; -sp; -sp-",
            quantity: "unité; unité/2; nb",
            show_title: "m.; mm.; mme; mmes; mlle; dr; pr; mgr",
            number_sign: "n°",
            "": """
                api; msapi; prononciation; phon; p.; page; référence insuffisante; référence à confirmer;
                référence incomplète; note; harvsp; article détaillé; voir homonymes; confusion; homonyme; drapeau;
                portail; palette; ouvrage; article; lien web; ancre; coord; images; colonnes; début de colonnes;
                méta bandeau; à illustrer; source insuffisante; refa; sfn; écouter""",
        },
        {
            # The names of these templates are the text: {{XIXe siècle}}, {{1er|janvier}}.
            r"(?:\d+|[ivxlc]+)(?:er|re|e|ème)(?: siècle)?": show_title,
            r"portail .*|palette .*|voir .*|ébauche.*|infobox.*|référence .*|carte .*": "",
        },
    ),
    "it": (
        {
            "{1}": """
                chiarire; cn; citazione necessaria; senza fonte; sf; non chiaro; chi; quando; quale; quanto; dove; ta;
                tutto attaccato; maiuscoletto; evidenziato; testo; barrato; sottolineato; piccolo; citazione; cit;
                virgolette; giapponese; formatnum""",
            "{2 1}": "lingua; lang; colore; color",
            "<sup>{1}</sup>": "exp; apice",
            "<sub>{1}</sub>": "pedice",
            "€ {1}": "euro; €",
            "a.C.": "a.c.",
            "d.C.": "d.c.",
            italian_biography: "bio",
            italian_measure: "m",
            convert: "converti",
            fraction: "fraz; frazione",
            # References, stubs, notices and the names of languages before links.
            "": """
                s; stub; a; c; d; e; f; l; nn; o; p; pov; recente; t; v; w; nd; nf; afi; ipa; cita; sfn; nota;
                nota disambigua; vedi anche; torna a; disambigua; interprogetto; portale; coord; bandiera; bandiera2;
                naz; simbolo; ita; età; controllo di autorità; collegamenti esterni; avvisounicode; categorie;
                references; note strette; div col; wikificare; organizzare; aiutare; tradotto da; template;
                box successione; lingue; dp; tassobox; film; colore link""",
        },
        {r"cita .*|calcio .*|basket .*|pallavolo .*|bandiera.*|collegamento.*|portale.*|vedi .*|voce .*|in .*": ""},
    ),
    "ja": (
        {
            "{1}": """
                読み仮名; 要出典範囲; ruby; ruby-ja; 補助漢字フォント; jisx0213; jis2004フォント; 拡張漢字; 要検証範囲;
                独自研究範囲; 誰範囲2""",
            "{2 1}": "lang; color; lang2; 読み仮名 ruby不使用",
            "{label 1}": "仮リンク",
            "×10^{1}": "e",
            "「{1}」": "引用句",
            "": """
                enlink; 要出典; 要検証; 誰; いつ; 出典の明記; 参照方法; 脚注; r; refnest; main; 記事名の制約; 半保護;
                定義リスト; flagicon; 年齢; 現在の年齢; ウィキポータルリンク; normdaten; 複数の問題""",
        },
        {r"population .*|要.*|.*-stub": ""},
    ),
    "ltg": (
        {},
        # {{vol-lv|word}}: a word after the name of its language.
        {r"vol-[a-z-]+": "{1}"},
    ),
    "nl": (
        {
            "{1}": "citaat; cquote; unicode; feit; nowrap; kleinkapitaal; formatnum; vertaald",
            "{2 1}": "lang; taal",
            "€ {1}": "euro",
            "×10^{1}": "e",
            "": """
                bron?; wie?; wanneer?; ipa; appendix; coor title; coor; zie hoofdartikel; zie ook; zijbalk; beginnetje;
                bronvermelding; link portaal; portaal; dp; citeer web; citeer boek; vlag; vlagland; refsectie; uitklap;
                zie dp; zie artikel""",
        },
        {r"citeer .*|infobox.*|sidebar.*|vlag.*|zie .*": ""},
    ),
    "pl": (
        {
            "{1}": "fakt; cytat; małe; unicode; kiedy; kto; jaki; państwo tekst; kapitaliki; nowrap; niejasne; sygn",
            "{2 1}": "link-interwiki; lang; j2",
            "{1} zł": "pln",
            "": """
                r; u; odn; j; język; ipa; ipa2; co; patrz; osobny artykuł; zobacz też; inne znaczenia; disambig;
                przypisy; flaga; państwo; dopracować; cytuj; cytuj stronę; cytuj książkę; portal; commons; koordynaty;
                spis treści; uwaga; ujednoznacznienie; zob""",
        },
        {r"cytuj .*|infobox.*|.* infobox|flaga.*|przypisy.*|język .*": ""},
    ),
    "pt": (
        {
            "{1}": """
                carece de fontes; fmtn; formatnum; versalete; citação; ilc; link; sem fonte; quem?; quando?; nowrap""",
            "{2 1}": "lang; língua",
            "século {1}": "séc; século",
            "R$ {1}": "r$",
            "×10^{1}": "e",
            portuguese_date: "dtlink; dtext; data",
            quantity: "unidade",
            convert: "converter; convert",
            "": """
                nota de rodapé; nre; ver desambiguação; artigo principal; vt; ver também; portal; mais fontes;
                citar web; citar livro; pepb; afi; bra; por; flag; flagicon; esboço; harvy; sfn; ligação inativa; info;
                controle de autoria; dn""",
        },
        {r"citar .*|info/.*|esboço.*|ver .*": ""},
    ),
    "ru": (
        {
            "{1}": """
                s; nobr; nowrap; число; comment; подсказка; abbr; нет аи; уточнить; кто; когда; где; какой; цитата;
                флагификация; капитель; разрядка; не переведено текст; прояснить; нет источника; текст; начало цитаты;
                формат числа; формула""",
            "{2 1}": """
                нп; нп1; нп2; нп3; нп4; нп5; не переведено; не переведено 2; не переведено 3; не переведено 5; iw; lang;
                цвет""",
            join(" "): "num; ед",
            old_style_date: "oldstyledate; олдстайл; старый стиль",
            fraction: "дробь",
            "×10^{1}": "e",
            "№ ": "№",
            "": """
                r; мфа; ref-en; ref-ru; ref-de; ref-fr; флаг; флаг сша; флаг россии; сс; сс2; сс3; вт-эсбе;
                основная статья; main; см. также; другие значения; значения; переадресация; навигация; книга; статья;
                cite web; примечания; координаты; портал; нет ссылок; refn; sfn; sfn0; карточка; якорь; возраст;
                дата рождения; дата смерти; тёзки""",
        },
        {r"ref-.*|флаг .*|карточка.*|внешние .*|вт-.*|ребс.*": ""},
    ),
    "zh": (
        {
            "{1}": """
                le; link; 专名; 專名; 书名; 書名; 僻字; 注音; 黑; 標點; 专有名词; 來源請求範圍; 来源请求范围; nowrap""",
            "{2 1}": "lang; color; lang2",
            "×10^{1}": "e",
            chinese_life: "bd; 生卒",
            "": """
                r; fact; cn; 來源請求; 来源请求; notetag; main; see; 另见; 參見; 参见; rh; 页; 年龄; 頁; who; when;
                查证; cite; 註; flagicon""",
        },
        {r".*-stub|.*小作品": ""},
    ),
}
