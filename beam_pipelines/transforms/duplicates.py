"""Exact duplicates are dropped before the shuffle: the first half of a combiner, with bounded memory.

A `CombineFn` of Beam would not do. Runners combine before a shuffle within one bundle only, as `RecentDocuments`
does, but they keep up to 100,000 values of any size, and a combiner keyed by document would send all text through a
shuffle of its own. The second half is `compact.unpack`, which keeps one copy while a bucket is read.
"""

from __future__ import annotations

from collections import OrderedDict

# An entry takes about 200 bytes, so that a full table takes 26 MB in each worker.
_CAPACITY = 1 << 17


class RecentDocuments:
    """Remembers the documents of one bundle, those seen last.

    A new one is made for each bundle: the output of a bundle that fails is lost, and what it saw must not count.

    Args:
        capacity: documents to remember.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._sources: OrderedDict[int, int] = OrderedDict()

    def is_copy(self, document_id: int, source: int = 0) -> bool:
        """Returns whether a document can be dropped, and remembers it.

        Args:
            document_id: its content hash.
            source: number of its input. Of equal documents that of the lowest source is kept.

        Returns:
            True where an equal document of the same or a lower source is remembered.
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
        """Forgets a document that was not sent on."""
        self._sources.pop(document_id, None)
