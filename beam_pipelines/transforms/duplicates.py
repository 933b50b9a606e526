"""Drops exact duplicates before the shuffle: the first half of a combiner, with bounded memory.

A Beam `CombineFn` is not suitable. Before a shuffle, runners combine only within one bundle, as `RecentDocuments`
does, but they keep up to 100,000 values of any size, and a combiner keyed by document would send all text through
another shuffle. The second half is `packed_documents.unpack`, which keeps one copy while a bucket is read.
"""

from __future__ import annotations

from collections import OrderedDict

# An entry takes about 200 bytes, so a full table takes 26 MB in each worker.
_CAPACITY = 1 << 17


class RecentDocuments:
    """Remembers the most recent documents of one bundle.

    Each bundle needs a new object, because the output of a failed bundle is lost and its documents must be forgotten.

    Args:
        capacity: number of documents to remember.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._sources: OrderedDict[int, int] = OrderedDict()

    def is_copy(self, document_id: int, source: int = 0) -> bool:
        """Returns True if a document can be dropped, and remembers it.

        Args:
            document_id: content hash of the document.
            source: index of the input. Of equal documents the one with the lowest source is kept.

        Returns:
            True if an equal document with the same or a lower source is remembered.
        """
        lowest = self._sources.get(document_id)
        if lowest is not None:
            self._sources.move_to_end(document_id)
            if lowest <= source:
                return True
        self._sources[document_id] = source
        if len(self._sources) > self._capacity:
            self._sources.popitem(last=False)
        return False

    def forget(self, document_id: int) -> None:
        """Forgets a document that was not emitted."""
        self._sources.pop(document_id, None)
