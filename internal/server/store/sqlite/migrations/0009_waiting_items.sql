-- What waits for an older item of its lane. As a rule that is nothing, and then the end of an item need not look for it.
CREATE INDEX items_waiting ON items (host, lane) WHERE state < 2 AND due IS NULL;
