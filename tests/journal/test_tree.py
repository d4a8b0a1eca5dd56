"""The tree is RFC 6962's, and what is kept of it is enough to go on from."""

from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from amends.errors import JournalDamagedError
from amends.journal.tree import EMPTY, LEVEL, WIDTH, Tree, branch, leaf
from amends.testing.journal_suite.evidence import root

# The inputs and roots by which the implementations of Certificate Transparency are checked.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_the_roots_are_those_of_the_reference() -> None:
    tree = Tree()
    assert tree.root == EMPTY == sha256(b"").digest()
    for text, expected in zip(INPUTS, ROOTS, strict=True):
        tree.add(leaf(bytes.fromhex(text)))
        assert tree.root.hex() == expected


def hashes(count: int) -> list[bytes]:
    return [sha256(str(number).encode()).digest() for number in range(count)]


@pytest.mark.parametrize("size", range(65))
def test_a_tree_that_grew_is_the_one_that_the_definition_makes(size: int) -> None:
    tree = Tree()
    for hashed in hashes(size):
        tree.add(leaf(hashed))
    assert (tree.size, tree.root, len(tree.kept)) == (size, root(hashes(size)), size.bit_count())


@given(first=st.integers(0, 300), more=st.integers(0, 300))
def test_a_tree_goes_on_from_what_is_kept_of_it(first: int, more: int) -> None:
    every = hashes(first + more)
    tree = Tree()
    for hashed in every[:first]:
        tree.add(leaf(hashed))
    again = Tree.read(tree.size, tree.spelled())
    for hashed in every[first:]:
        again.add(leaf(hashed))
    assert again.root == root(every)
    assert (tree.size, tree.root) == (first, root(every[:first]))


@given(first=st.integers(0, 600), more=st.integers(0, 600))
def test_entries_make_the_tree_that_their_leaves_make_and_give_each_full_subtree_that_is_kept(
    first: int, more: int
) -> None:
    every = hashes(first + more)
    tree, again = Tree(), Tree()
    full = [*tree.extend(every[:first]), *tree.extend(iter(every[first:]))]
    for hashed in every:
        again.add(leaf(hashed))
    assert (tree.size, tree.kept) == (again.size, again.kept)
    kept = [root(every[WIDTH * place : WIDTH * (place + 1)]) for place in range(len(every) // WIDTH)]
    assert full == [(LEVEL, place, hashed) for place, hashed in enumerate(kept)]


def test_a_copy_grows_alone() -> None:
    tree = Tree()
    tree.add(leaf(b"1"))
    twin = tree.copy()
    twin.add(leaf(b"2"))
    assert (tree.size, tree.root, twin.root) == (1, leaf(b"1"), branch(leaf(b"1"), leaf(b"2")))


@pytest.mark.parametrize(("size", "spelled"), [(1, b""), (0, bytes(32)), (2, bytes(64)), (3, bytes(63)), (-1, b"")])
def test_a_row_that_does_not_fit_its_size_is_damage(size: int, spelled: bytes) -> None:
    with pytest.raises(JournalDamagedError, match="which do not fit"):
        Tree.read(size, spelled)
