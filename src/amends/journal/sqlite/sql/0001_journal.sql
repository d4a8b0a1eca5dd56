-- The journal itself. `seq` is the order of everything in the file, from 1 and without gaps; `number` is the order within
-- one saga. A body that was removed has left its digest: 'sha256:' and 64 hexadecimal digits.
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
-- What people are asked, among everything else that is in the log.
CREATE INDEX entry_asking ON entry (seq) WHERE name GLOB 'approval.requested/*' OR name GLOB 'incident.opened/*';

-- The tree over the hashes of all entries, in the order of `seq`: its size, and the roots of its full subtrees.
CREATE TABLE tree (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    size INTEGER NOT NULL,
    kept BLOB    NOT NULL
) STRICT;
INSERT INTO tree (id, size, kept) VALUES (1, 0, x'');

-- Roots of it that were signed, and the public keys they are signed by; a key's note is how the one before named it.
CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    note TEXT    NOT NULL
) STRICT;
CREATE TABLE signer (
    id   INTEGER PRIMARY KEY,
    key  TEXT    NOT NULL,
    at   INTEGER NOT NULL,
    note TEXT    NOT NULL
) STRICT;

-- Large payloads, under the SHA-256 of their text.
CREATE TABLE blob (
    id     INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    data   TEXT NOT NULL
) STRICT;
CREATE TABLE blob_use (
    saga   INTEGER NOT NULL,
    digest TEXT    NOT NULL,
    PRIMARY KEY (saga, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_digest ON blob_use (digest);

-- One row for each saga: the fence (head, epoch), and what lists show. Written with the entries, in one transaction.
-- `worker` is '' where nobody ever held it. `removed` is 1 where the bodies of all its entries were removed.
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
    open_approvals INTEGER NOT NULL,
    removed        INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX saga_started    ON saga (started_at);
CREATE INDEX saga_status     ON saga (status, started_at);
CREATE INDEX saga_definition ON saga (definition, started_at);
CREATE INDEX saga_env        ON saga (env, started_at);
CREATE INDEX saga_held       ON saga (worker) WHERE status IN ('running', 'waiting', 'rolling_back');
CREATE INDEX saga_asleep     ON saga (worker, wake_at) WHERE status = 'waiting';
CREATE INDEX saga_parent     ON saga (json_extract(labels, '$."amends.parent"'), started_at)
                             WHERE json_extract(labels, '$."amends.parent"') IS NOT NULL;
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

-- How far somebody has come who reads the log, and a few words of theirs on it.
CREATE TABLE cursor (
    name     TEXT    NOT NULL PRIMARY KEY,
    position INTEGER NOT NULL,
    note     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- What was admitted under a rate, and until when it counts.
CREATE TABLE admission (
    id    INTEGER PRIMARY KEY,
    key   TEXT    NOT NULL,
    at    INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX admission_key   ON admission (key, at);
CREATE INDEX admission_until ON admission (until);
