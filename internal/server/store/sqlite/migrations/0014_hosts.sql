-- What an agent says of its host: the name, and which of several hosts with the same key is the one.
ALTER TABLE agents ADD COLUMN name  TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN place TEXT NOT NULL DEFAULT '';
