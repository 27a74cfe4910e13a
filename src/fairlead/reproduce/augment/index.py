"""The door to tantivy: a search index on disk that takes documents and commits them."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead.errors import MissingPartError

_HEAP: Final = 64 << 20


def module() -> Any:
    """Return tantivy; MissingPartError says what needs it."""
    try:
        import tantivy  # noqa: PLC0415 - the error names it where it is missing
    except ImportError:
        raise MissingPartError("the load-heavy job needs tantivy, a search index") from None
    return tantivy


class SearchIndex:
    """An index of documents with an id, a title and a body."""

    def __init__(self, folder: str) -> None:
        tantivy = module()
        os.makedirs(folder, exist_ok=True)
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", stored=True, indexed=True)
        builder.add_integer_field("length", stored=True)
        for name in ("title", "body"):
            builder.add_text_field(name, stored=name == "title")
        self._document = tantivy.Document
        self._index = tantivy.Index(builder.build(), path=folder)
        self._writer = self._index.writer(heap_size=_HEAP, num_threads=1)

    def add(self, documents: Iterable[Mapping[str, Any]]) -> int:
        """Take documents; they are found after the next commit. Return how many."""
        count = 0
        for count, each in enumerate(documents, 1):  # noqa: B007 - counted
            self._writer.add_document(self._document(**each))
        return count

    def commit(self) -> None:
        """Make all that was taken durable."""
        self._writer.commit()

    def close(self) -> None:
        """Let another writer open the index."""
        self._writer.wait_merging_threads()

    def count(self) -> int:
        """Return how many documents are committed."""
        self._index.reload()
        return int(self._index.searcher().num_docs)

    def search(self, words: str, most: int = 10) -> list[int]:
        """Return the ids of the best documents."""
        self._index.reload()
        searcher = self._index.searcher()
        found = searcher.search(self._index.parse_query(words, ["title", "body"]), most)
        return [int(searcher.doc(address)["id"][0]) for _, address in found.hits]
