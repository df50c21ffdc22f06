"""Sentences of the pages are short: so many words in the mean, and no long one."""

from __future__ import annotations

import pytest

from tests.pages import DOCS, ROOT
from tests.prose import LONGEST, MEAN, sentences, too_long

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_are_short(page):
    wrong = too_long(page.read_text())
    assert wrong is None, wrong


def test_words_are_counted_by_sentence():
    """Code, tables and headings are no prose; a link is its words, inline code is one word."""
    page = """# A heading of many words

One two three. Four [five](six.md)
seven?

- eight `nine ten eleven`
- twelve

    code that is indented and long

| a | b |

```text
more code
```
"""
    assert sentences(page) == [3, 3, 2, 1]


@pytest.mark.parametrize(
    ("lengths", "accepted"),
    [
        ([MEAN], True),
        ([MEAN + 1], False),
        ([1, LONGEST], True),
        ([1, 1, 1, LONGEST + 1], False),
    ],
)
def test_long_sentences_are_noticed(lengths, accepted):
    page = " ".join(" ".join(["word"] * n) + "." for n in lengths)
    assert (too_long(page) is None) == accepted
