-- Versioned documents. A version without a body says that the document was deleted; `saga` is '' outside of sagas.
CREATE TABLE document (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT,
    saga    TEXT    NOT NULL,
    by      TEXT    NOT NULL,
    key     TEXT    NOT NULL UNIQUE,
    at      INTEGER NOT NULL,
    UNIQUE (name, version)
) STRICT;
