ALTER TABLE people ADD COLUMN name TEXT;
UPDATE people SET name = first || ' ' || last;
ALTER TABLE people DROP COLUMN first;
ALTER TABLE people DROP COLUMN last
