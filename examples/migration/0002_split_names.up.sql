ALTER TABLE people ADD COLUMN first TEXT;
ALTER TABLE people ADD COLUMN last TEXT;
UPDATE people SET first = substr(name, 1, instr(name, ' ') - 1), last = substr(name, instr(name, ' ') + 1);
ALTER TABLE people DROP COLUMN name
