-- From here on, a body that is removed leaves no text: its digest stands after the entry's hash, in 32 bytes. `recorded` has
-- all entries as they always were, with 'sha256:' and 64 hexadecimal digits in the place of such a body.
CREATE VIEW recorded AS
SELECT seq, saga, number, at, name,
       iif(body = '' AND length(hash) = 64, 'sha256:' || lower(hex(substr(hash, 33))), body) AS body,
       iif(body = '' AND length(hash) = 64, substr(hash, 1, 32), hash) AS hash
  FROM entry;
