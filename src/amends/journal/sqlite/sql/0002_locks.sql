-- Who holds a resource, and who stands in line for it: the oldest ticket of a resource is its holder's. `saga` asked, and
-- the end of `owner` takes the ticket away.
CREATE TABLE ticket (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    resource TEXT    NOT NULL,
    saga     INTEGER NOT NULL,
    owner    INTEGER NOT NULL,
    step     TEXT    NOT NULL,
    asked_at INTEGER NOT NULL,
    until    INTEGER NOT NULL
) STRICT;
CREATE INDEX ticket_line  ON ticket (resource, id);
CREATE INDEX ticket_saga  ON ticket (saga, step);
CREATE INDEX ticket_owner ON ticket (owner);
