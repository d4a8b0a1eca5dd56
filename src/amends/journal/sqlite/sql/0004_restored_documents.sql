-- Which version of its own a saga took back by this one, which has the body from before it; 0 for a change.
ALTER TABLE document ADD COLUMN takes_back INTEGER NOT NULL DEFAULT 0;
