from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.page_names import next_names, root_name


def names_of(tokens, root):
    return list(next_names(root, np.array(tokens, np.int32)))


def test_only_full_pages_have_names():
    root = root_name("a")
    assert [len(names_of(range(count), root)) for count in (0, 31, 32, 63, 64)] == [0, 0, 1, 1, 2]


def test_a_name_says_everything_up_to_the_end_of_its_page():
    """The same page after another one has another name."""
    root = root_name("a")
    page, other = [1] * 32, [2] * 32
    assert names_of(page + page, root)[0] == names_of(page + other, root)[0]
    seconds = [names_of(first + page, root)[1] for first in (page, other)]
    assert len(set(seconds)) == 2
    assert len(set(names_of(page * 10, root))) == 10


def test_tenants_and_adapters_never_share_a_name():
    pairs = [
        ("", ""),
        ("a", ""),
        ("", "a"),
        ("ab", ""),
        ("a", "b"),
        ("b", "a"),
        ("\0", ""),
        ("", "\0"),
    ]
    names = {names_of([5] * 32, root_name(*pair))[0] for pair in pairs}
    assert len(names) == len(pairs)


@given(
    tokens=st.lists(st.integers(0, 2**31 - 1), max_size=200),
    cuts=st.lists(st.integers(0, 6), max_size=4),
)
def test_names_are_the_same_however_the_tokens_came(tokens, cuts):
    """A prompt at once, or a page of output now and then."""
    whole = names_of(tokens, root_name("a"))
    parent, parts, start = root_name("a"), [], 0
    for pages in [*cuts, 99]:
        part = names_of(tokens[start * 32 : (start + pages) * 32], parent)
        parts += part
        start += len(part)
        parent = parts[-1] if parts else parent
    assert parts == whole
