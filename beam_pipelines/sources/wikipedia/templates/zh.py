"""Templates of the Chinese Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import (
    Arguments,
    Patterns,
    drop,
    drop_matching,
    merged,
    names_of,
    show,
    surround,
)


def _life(_: str, arguments: Arguments) -> str:
    """Returns the dates of birth and death in brackets: （1879年3月14日－1955年4月18日）."""
    born = arguments.get("1", "") + arguments.get("2", "")
    died = arguments.get("3", "") + arguments.get("4", "")
    return f"（{born}－{died}）" if born or died else ""


TEMPLATES = merged(
    show("1", "le; link; 专名; 專名; 书名; 書名; 僻字; 注音; 黑; 標點; 专有名词; 來源請求範圍; 来源请求范围; nowrap"),
    show("2 1", "lang; color; lang2"),
    surround("×10^", "", "e"),
    dict.fromkeys(names_of("bd; 生卒"), _life),
    drop(
        """
        r; fact; cn; 來源請求; 来源请求; notetag; main; see; 另见; 參見; 参见; rh; 页; 年龄; 頁; who; when; 查证;
        cite; 註; flagicon
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r".*-stub|.*小作品"),)
