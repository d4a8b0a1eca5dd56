-- Keys of calls, to find a saga by. They are noted from the log, a chunk at a time, when somebody is about to look for one:
-- `keys_noted` has how far that has come.
CREATE TABLE saga_key (
    key        text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,
    saga       bigint NOT NULL,
    PRIMARY KEY (key, started_at, saga)
);
CREATE TABLE keys_noted (
    id       int    PRIMARY KEY CHECK (id = 1),
    position bigint NOT NULL
);
INSERT INTO keys_noted (id, position) VALUES (1, 0);
