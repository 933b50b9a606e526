"""Names of files, categories, redirects and disambiguation pages in wikis of many languages.

A dump lists its local names in its head (`<siteinfo>`). The names here are the built-in names of every wiki (English)
and the names of the larger Wikipedias, for dumps whose head is missing or belongs to another wiki. Sources: the
namespace names of MediaWiki, the pages `MediaWiki:Disambiguationspage` and the list of Wikipedias of the Wikimedia
Foundation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

FILE_NAMESPACE, CATEGORY_NAMESPACE = 6, 14

_FILES = """
file; image; media; datei; bild; fichier; archivo; imagen; immagine; ficheiro; arquivo; imagem; bestand;
afbeelding; fil; bilde; billede; tiedosto; kuva; mynd; plik; grafika; soubor; obrázek; súbor; obrázok; fájl;
kép; fișier; fişier; imagine; файл; изображение; зображення; выява; картинка; датотека; слика; податотека;
рәсем; сурет; datoteka; slika; vaizdas; attēls; fails; pilt; fail; dosya; resim; şəkil; fayl; tasvir; fitxer;
imatge; fitxategi; irudi; imaxe; ficheru; fichièr; dosiero; fasciculus; imago; restr; delwedd; íomhá; lêer;
beeld; skeda; figura; berkas; gambar; imej; payl; paypay; tập tin; hình; αρχείο; εικόνα; ფაილი; სურათი; պատկեր;
קובץ; תמונה; ملف; صورة; پرونده; تصویر; فائل; चित्र; চিত্র; ছবি; படிமம்; దస్త్రం; బొమ్మ; ಚಿತ್ರ; പ്രമാണം; ചിത്രം;
ไฟล์; ภาพ; ファイル; 画像; 文件; 檔案; 档案; 图像; 圖像; 图片; 圖片; 파일; 그림
"""
_CATEGORIES = """
category; kategorie; catégorie; categoría; categoria; categorie; kategori; luokka; flokkur; kategoria;
kategória; категория; категорія; катэгорыя; категорија; санат; төркем; kategorija; kategoreja; kategooria;
kateqoriya; kategoriya; turkum; kategorio; rummad; categori; catagóir; kaarangay; thể loại; κατηγορία;
კატეგორია; կատեգորիա; קטגוריה; تصنيف; رده; زمرہ; श्रेणी; वर्ग; বিষয়শ্রেণী; பகுப்பு; వర్గం; ವರ್ಗ; വർഗ്ഗം;
หมวดหมู่; カテゴリ; 分类; 分類; 분류
"""
# Codes of Wikipedias, including replaced codes, as prefixes of interlanguage links.
_LANGUAGES = """
aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban bar
bat-smg bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug bxr ca cbk-zam cdo ce
ceb ch cho chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq dsb dtp dty dv dz ee el eml en eo es et
eu ext fa fat ff fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc
gur guw gv ha hak haw he hi hif ho hr hsb ht hu hy hyw hz ia iba id ie ig igl ii ik ilo inh io is it iu ja jam
jbo jv ka kaa kab kbd kbp kcg kg kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb lbe
lez lfn lg li lij lld lmo ln lo lrc lt ltg lv lzh mad mai map-bms mdf mg mh mhr mi min mk ml mn mni mnw mo mos
mr mrj ms mt mus mwl my myv mzn na nah nan nap nb nds nds-nl ne new ng nia nl nn no nov nqo nr nrm nso nup nv ny
oc olo om or os pa pag pam pap pcd pcm pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rki rm rmy rn ro roa-rup
roa-tara rsk ru rue rup rw sa sah sat sc scn sco sd se sg sgs sh shi shn shy si simple sk skr sl sm smn sn so sq
sr srn ss st stq su sv sw syl szl szy ta tay tcy tdd te tet tg th ti tig tk tl tly tn to tpi tr trv ts tt tum tw
ty tyv udm ug uk ur uz ve vec vep vi vls vo vro wa war wo wuu xal xh xmf yi yo yue za zea zgh zh zh-classical
zh-min-nan zh-yue zu
"""
# Disambiguation pages: names of templates, which also occur in brackets in titles.
_DISAMBIGUATIONS = """
disambiguation; disambig; disamb; disambiguation page; dab; aimai; hndis; hndab; geodis; geodab; numberdis;
mathdab; roaddis; schooldis; callsigndis; letter-numbercombdisambig; begriffsklärung; homonymie; desambiguación;
desambiguação; desambig; desambiguació; disambigua; dezambiguizare; dp; doorverwijspagina; dubbelsinnig;
deurverwiespagina; trochferwiisside; förgrening; gren; flertydig; fleirtyding; peker; pekerside; aðgreining;
täsmennyssivu; täsmennys; täpsustuslehekülg; täpsustus; zeimeibu škiršona; nozīmju atdalīšana; nuorodinis;
ujednoznacznienie; rozcestník; rozlišovacia stránka; egyért; egyértelműsítő lap; egyértelműsítés; razločitev;
razdvojba; višeznačna odrednica; вишезначна одредница; неоднозначность; многозначность;
багатозначність; неоднозначність; неадназначнасць; неадназначнасьць; пояснителна страница;
айрық; anlam ayrımı; anlam ayrım; dəqiqləşdirmə; disambiguasi; nyahkekaburan; paglilinaw; định hướng;
trang định hướng; apartigilo; discretiva; argipen; homónimos; idirdhealú; idirdhealáin; argipena; omonimia;
disambigueren; desambiguáncia; giklaro; pansayod; wjacezmyslnosć; појаснување; күп мәгънәләр; күп мәғәнәлелек;
gwahaniaethu; kthjellim; kthjellime; dixebra; omonimeye; mehrdüdig begreep; αποσαφήνιση; αποσαφ; פירושונים;
באדייטן; توضيح; صفحة توضيح; ابهام‌زدایی; ابهام زدایی; ضد ابہام; बहुविकल्पी; बहुविकल्पी शब्द; দ্ব্যর্থতা নিরসন;
பக்கவழி நெறிப்படுத்தல்; అయోమయ నివృత్తి; ದ್ವಂದ್ವ ನಿವಾರಣೆ; വിവക്ഷകൾ; แก้กำกวม; แก้ความกำกวม; მრავალმნიშვნელოვანი;
բազմիմաստություն; 曖昧さ回避; 人名の曖昧さ回避; 地名の曖昧さ回避; 消歧义; 消歧義; 消歧义页; 消歧義頁;
地名消歧义; 地名消歧義; 人名消歧义; 人名消歧義; 搞清楚; 동음이의; 동명이인; 동음이의어 문서; 동음이의어
"""
# Only in brackets of titles: templates with these names occur in articles and link to disambiguation pages.
_TITLE_WORDS = "значения; значення; пояснение; reikšmės"
_REDIRECTS = """
redirect; weiterleitung; redirection; redirección; redirecionamento; rinvia; doorverwijzing; omdirigering;
ohjaus; uudelleenohjaus; tilvísun; patrz; przekieruj; tam; přesměruj; presmeruj; átirányítás; redirecteaza;
перенаправление; перенапр; перенаправлення; пренасочване; преусмери; preusmjeri; preusmeritev; suuna;
yönlendirme; YÖNLENDİRME; alih; đổi; alidirektu; birzuzendu; ανακατευθυνση; הפניה; تحويل; تغییر_مسیر; تغییرمسیر;
पुनर्प्रेषित; अनुप्रेषित; เปลี่ยนทาง; გადამისამართება; 転送; リダイレクト; 重定向; 넘겨주기
"""


def _key(name: str) -> str:
    return " ".join(name.replace("_", " ").split()).lower()


def _keys(names: str) -> frozenset[str]:
    return frozenset(_key(name) for name in names.split(";"))


LANGUAGES = frozenset(_LANGUAGES.split())
_DISAMBIGUATION_NAMES = _keys(_DISAMBIGUATIONS)
_DISAMBIGUATION_TITLES = _DISAMBIGUATION_NAMES | _keys(_TITLE_WORDS)
# Names of English templates are open-ended ("airport disambiguation"); "disambiguation needed" marks a link.
_DISAMBIGUATION_TEMPLATE = re.compile(r"(?:.*[ -])?disambig(?:uation)?(?: page)?")
_TEMPLATE_NAME = re.compile(r"\{\{\s*+([^{}|\[\]\n<>]{2,60})")
_TITLE_SUFFIX = re.compile(r"[(（]([^()（）]+)[)）]$")
_REDIRECT = re.compile(
    r"\s*#\s*+(?:" + "|".join(re.escape(name.strip()) for name in _REDIRECTS.split(";")) + r")[^\[\n]*\[\[", re.I
)


@dataclass(frozen=True)
class WikiNames:
    """The names of one wiki in lower case, with words separated by one space."""

    files: frozenset[str] = _keys(_FILES)  # namespaces of images and sounds
    categories: frozenset[str] = _keys(_CATEGORIES)  # namespaces of categories
    namespaces: tuple[tuple[str, int], ...] = ()  # names and numbers, for dumps whose pages have no namespace
    language: str = ""  # code of the content, which selects the template tables; empty if unknown

    def with_local(self, local: Iterable[tuple[int, str]], language: str = "") -> WikiNames:
        """Adds the numbers and names of namespaces in the head of a dump; an empty language keeps the current one."""
        pairs = [(number, _key(name)) for number, name in local if name.strip()]
        return WikiNames(
            self.files.union(name for number, name in pairs if number == FILE_NAMESPACE),
            self.categories.union(name for number, name in pairs if number == CATEGORY_NAMESPACE),
            tuple((name, number) for number, name in pairs),
            language or self.language,
        )

    def namespace_of(self, title: str) -> int:
        """Returns the namespace number of `title`, 0 for articles."""
        prefix, colon, _ = title.partition(":")
        return dict(self.namespaces).get(_key(prefix), 0) if colon else 0

    def is_left_out(self, prefix: str) -> bool:
        """Returns True if a link with `prefix` before a colon shows no text: a file, category or language."""
        name = _key(prefix)
        return name in self.files or name in self.categories or name in LANGUAGES


def is_redirect(wikitext: str) -> bool:
    """Returns True if a page is a redirect, for dumps that do not mark redirects."""
    return wikitext.lstrip()[:1] == "#" and _REDIRECT.match(wikitext) is not None


def is_disambiguation(title: str, wikitext: str) -> bool:
    """Returns True if a page is a disambiguation page, by title, templates or magic word."""
    suffix = _TITLE_SUFFIX.search(title)
    if (suffix and _key(suffix[1]) in _DISAMBIGUATION_TITLES) or "__DISAMBIG__" in wikitext:
        return True
    return any(_names_disambiguation(_key(name)) for name in set(_TEMPLATE_NAME.findall(wikitext)))


def _names_disambiguation(name: str) -> bool:
    return name in _DISAMBIGUATION_NAMES or _DISAMBIGUATION_TEMPLATE.fullmatch(name) is not None
