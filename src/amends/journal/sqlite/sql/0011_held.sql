-- With a list of three in its condition, this index had SQLite fill a table with the list, at every write of a saga's row that
-- begins or ends it.
DROP INDEX saga_held;
CREATE INDEX saga_held ON saga (worker) WHERE status = 'running' OR status = 'waiting' OR status = 'rolling_back';
