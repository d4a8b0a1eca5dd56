-- Roots of full subtrees of the tree over all entries, of 256 entries each, and of 256 of those, and so on: proofs of a few
-- entries are made from them, and not from the hashes of all. `place` counts the subtrees of a height from 0.
CREATE TABLE subtree (
    height INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    hash   BLOB    NOT NULL,
    PRIMARY KEY (height, place)
) STRICT, WITHOUT ROWID;
