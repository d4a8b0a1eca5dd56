-- Keys of calls, to find a saga by. They are noted from the log, a chunk at a time, when somebody is about to look for one:
-- `keys_noted` has how far that has come.
CREATE TABLE saga_key (
    key        TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    saga       INTEGER NOT NULL,
    PRIMARY KEY (key, started_at, saga)
) STRICT, WITHOUT ROWID;
CREATE TABLE keys_noted (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL
) STRICT;
INSERT INTO keys_noted (id, seq) VALUES (1, 0);
