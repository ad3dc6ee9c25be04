-- The proxies that have joined, and what each token is for.
ALTER TABLE join_tokens ADD COLUMN role TEXT NOT NULL DEFAULT 'agent';

CREATE TABLE proxies (
    key       TEXT    PRIMARY KEY,
    area      INTEGER NOT NULL,
    name      TEXT    NOT NULL UNIQUE,
    advertise TEXT    NOT NULL,
    build     TEXT    NOT NULL,
    token     TEXT    NOT NULL,
    created   INTEGER NOT NULL
) STRICT;
