"""Sentences of the pages are short: so many words in the mean, and no long one."""

from __future__ import annotations

import pytest

from tests.pages import DOCS, ROOT
from tests.prose import LONGEST, MEAN, handwritten, sentences, too_long

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_are_short(page):
    wrong = too_long(page.read_text())
    assert wrong is None, wrong


MOST_WORDS = 45_000
"""All pages of docs/ together; the lowering table is made by the code."""


def test_the_pages_together_can_be_read():
    words = {page.name: handwritten(page.read_text()) for page in DOCS.glob("*.md")}
    del words["lowering.md"]
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda word: -word[1])[:5]


def test_generated_parts_and_printed_lines_do_not_count():
    page = """One two.

<!-- begin table -->
three four
<!-- end table -->

<!-- museum: begin -->
five
<!-- museum: end -->

```console
$ six
seven eight
$ nine
```

<!-- What follows is written by benchmarks/gpu.py. -->

ten eleven
"""
    assert handwritten(page) == 8


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
