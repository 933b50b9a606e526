"""Templates of the Japanese Wikipedia."""

from __future__ import annotations

from beam_pipelines.sources.wikipedia.templates.renderers import Patterns, drop, drop_matching, merged, show, surround

TEMPLATES = merged(
    show(
        "1",
        """
        読み仮名; 要出典範囲; ruby; ruby-ja; 補助漢字フォント; jisx0213; jis2004フォント; 拡張漢字; 要検証範囲;
        独自研究範囲; 誰範囲2
        """,
    ),
    show("2 1", "lang; color; lang2; 読み仮名 ruby不使用"),
    show("label 1", "仮リンク"),
    surround("×10^", "", "e"),
    surround("「", "」", "引用句"),
    drop(
        """
        enlink; 要出典; 要検証; 誰; いつ; 出典の明記; 参照方法; 脚注; r; refnest; main; 記事名の制約; 半保護;
        定義リスト; flagicon; 年齢; 現在の年齢; ウィキポータルリンク; normdaten; 複数の問題
        """
    ),
)

PATTERNS: Patterns = (drop_matching(r"population .*|要.*|.*-stub"),)
