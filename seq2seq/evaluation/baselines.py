"""Translations without a model, which a model has to beat."""

from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from seq2seq.data.corpus import Pair

# Similarities held at once (some 20 bytes each), so that memory does not grow with the corpus.
_BLOCK = 4_000_000


def copy_baseline(train: Sequence[Pair], sources: Sequence[str]) -> list[str]:
    """For each source, the target of the training pair whose source is nearest.

    Near by the cosine of tf-idf vectors of character uni- and bigrams; of equally near pairs the first.

    Raises:
        ValueError: there is no training pair.
    """
    if not train:
        raise ValueError("the copy baseline needs training pairs")
    if not sources:
        return []
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2))
    known = vectorizer.fit_transform([pair.source for pair in train]).T.tocsr()
    asked = vectorizer.transform(sources)
    rows = max(1, _BLOCK // len(train))
    blocks = ((asked[start : start + rows] @ known).toarray() for start in range(0, len(sources), rows))
    return [train[int(nearest)].target for block in blocks for nearest in np.argmax(block, axis=1)]
