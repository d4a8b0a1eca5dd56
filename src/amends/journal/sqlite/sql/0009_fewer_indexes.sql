-- A definition, and all sagas, are read off the indexes that have a status too, as each of the few statuses there are.
DROP INDEX saga_definition;
DROP INDEX saga_started;
