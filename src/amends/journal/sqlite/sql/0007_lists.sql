-- What was noted on sagas, to find them by; and the filters that are asked for together, or by the time of an end.
CREATE TABLE saga_label (
    name       TEXT    NOT NULL,
    value      TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    saga       INTEGER NOT NULL,
    PRIMARY KEY (name, value, started_at, saga)
) STRICT, WITHOUT ROWID;
INSERT INTO saga_label (name, value, started_at, saga)
SELECT label.key, label.value, saga.started_at, saga.id FROM saga, json_each(saga.labels) AS label;
CREATE INDEX saga_definition_status ON saga (definition, status, started_at);
CREATE INDEX saga_ended             ON saga (ended_at) WHERE ended_at IS NOT NULL;
