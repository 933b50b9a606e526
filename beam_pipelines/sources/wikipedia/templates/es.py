"""Templates of the Spanish Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    convert,
    drop,
    drop_matching,
    fixed,
    fraction,
    merged,
    names_of,
    quantity,
    show,
    surround,
)


def _century(_: str, arguments: Arguments) -> str:
    number = arguments.get("1", "").upper()
    era = {"a": " a. C.", "d": " d. C."}.get(arguments.get("2", "").lower(), "")
    return f"{'siglo ' if arguments.get('3') == 's' else ''}{number}{era}" if number else ""


TEMPLATES = merged(
    show(
        "1",
        """
        esd; versalita; versalitas; cita; demostrar; cuestionado; unidad de texto; nombre; may; negrita; formatnum
        """,
    ),
    show("2 1", "lang; idioma; color"),
    dict.fromkeys(names_of("unidad; nb"), quantity),
    dict.fromkeys(names_of("siglo"), _century),
    {"convertir": convert, "fracción": fraction},
    surround("×10^", "", "e"),
    surround("<sup>", "</sup>", "exp; super"),
    fixed("a. C.", "ac; a. c.; a.c."),
    fixed("d. C.", "dc; d. c.; d.c."),
    fixed("n.º", "nº"),
    drop(
        """
        ap; afi; vt; vea; véase; añadir referencias; cita requerida; aclarar; quién; cuándo; dónde; cuál; refn;
        harvnp; bandera; bandera2; geodatos; ficha; cr; ncf; desambiguación; otros usos; redirige aquí; enlace roto;
        sin relevancia; obra citada; pb; portal; control de autoridades; cita libro; cita web; cita publicación;
        sic; página requerida
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r"cita .*|ficha .*|bandera.*|véase .*|artículo .*"),)
