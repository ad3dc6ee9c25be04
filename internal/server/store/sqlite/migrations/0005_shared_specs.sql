-- Requests of one task often bring the same spec. It is stored with the first of them, which the others name here.
ALTER TABLE requests ADD COLUMN spec_of INTEGER;
