-- An item that asks for the same as another one of its task, under another key, ends with that one.
ALTER TABLE items ADD COLUMN twin bigint;
CREATE INDEX items_twins ON items (twin) WHERE twin IS NOT NULL AND state < 4;

-- Calls that were answered before their tasks had ended, so that their callers will ask again.
CREATE TABLE repeats (
    matter text   COLLATE "C" PRIMARY KEY, -- whose call it is and about what
    what   text   NOT NULL,                -- what it asks for
    task   text   NOT NULL,
    at     bigint NOT NULL
);
CREATE INDEX repeats_at ON repeats (at);

-- Pages of a namespace are in the order in which its processes were first heard of.
CREATE INDEX observed_page ON observed (namespace, num);
