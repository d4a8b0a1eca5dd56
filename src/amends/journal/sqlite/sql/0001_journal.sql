-- The journal itself. `seq` is the order of everything in the file; `number` is the order within one saga.
CREATE TABLE entry (
    seq    INTEGER PRIMARY KEY,
    saga   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    body   TEXT    NOT NULL,
    hash   BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_number ON entry (saga, number);

-- Large payloads, under the SHA-256 of their text.
CREATE TABLE blob (
    id     INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    data   TEXT NOT NULL
) STRICT;

-- One row for each saga: the fence (head, epoch), and what lists show. Written with the entries, in one transaction.
-- `worker` is '' where nobody ever held it.
CREATE TABLE saga (
    id             INTEGER PRIMARY KEY,
    name           TEXT    NOT NULL UNIQUE,
    head           INTEGER NOT NULL,
    hash           BLOB    NOT NULL,
    epoch          INTEGER NOT NULL,
    worker         TEXT    NOT NULL,
    nudged         INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    wake_at        INTEGER,
    definition     TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    env            TEXT    NOT NULL,
    actor          TEXT    NOT NULL,
    labels         TEXT    NOT NULL,
    started_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    ended_at       INTEGER,
    open_incidents INTEGER NOT NULL,
    open_approvals INTEGER NOT NULL
) STRICT;
CREATE INDEX saga_started    ON saga (started_at);
CREATE INDEX saga_status     ON saga (status, started_at);
CREATE INDEX saga_definition ON saga (definition, started_at);
CREATE INDEX saga_env        ON saga (env, started_at);
CREATE INDEX saga_held       ON saga (worker) WHERE status IN ('running', 'waiting', 'rolling_back');
CREATE INDEX saga_asleep     ON saga (worker, wake_at) WHERE status = 'waiting';
CREATE INDEX saga_nudged     ON saga (worker) WHERE nudged = 1;

CREATE TABLE saga_topic (
    topic      TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    saga       INTEGER NOT NULL,
    PRIMARY KEY (topic, started_at, saga)
) STRICT, WITHOUT ROWID;

-- What people are asked, in the order in which they were asked.
CREATE TABLE incident (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    saga      INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    step      TEXT,
    why       TEXT    NOT NULL,
    remaining TEXT    NOT NULL,
    owner     TEXT    NOT NULL,
    status    TEXT    NOT NULL,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    UNIQUE (saga, number)
) STRICT;
CREATE INDEX incident_open ON incident (id) WHERE status = 'open';

CREATE TABLE approval (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    saga         INTEGER NOT NULL,
    step         TEXT    NOT NULL,
    topic        TEXT    NOT NULL,
    rule         TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    requested_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    UNIQUE (saga, step)
) STRICT;
CREATE INDEX approval_open ON approval (id) WHERE status = 'requested';

-- Who is alive, and until when by the machine's own clock; the rest says which process of which boot it is.
CREATE TABLE worker (
    name    TEXT    NOT NULL PRIMARY KEY,
    until   REAL    NOT NULL,
    ttl     REAL    NOT NULL,
    boot    TEXT    NOT NULL,
    space   TEXT    NOT NULL,
    pid     INTEGER NOT NULL,
    started TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
