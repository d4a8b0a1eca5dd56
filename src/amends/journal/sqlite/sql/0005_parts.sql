-- From here on, a blob is a part of a large payload, or all of one that an older version wrote: there are many more, so who
-- needs them is told by number. Bodies name parts, which older versions do not know.
CREATE TABLE blob_used (
    saga INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (saga, blob)
) STRICT, WITHOUT ROWID;
INSERT INTO blob_used (saga, blob) SELECT blob_use.saga, blob.id FROM blob_use JOIN blob ON blob.digest = blob_use.digest;
DROP TABLE blob_use;
ALTER TABLE blob_used RENAME TO blob_use;
CREATE INDEX blob_use_blob ON blob_use (blob);
