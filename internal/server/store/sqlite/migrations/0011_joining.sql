-- Who may join, how each host has joined, and who was removed.
CREATE TABLE join_tokens (
    id       TEXT    PRIMARY KEY, -- in the order of their making
    hash     TEXT    NOT NULL,
    cloud    INTEGER NOT NULL,
    labels   TEXT    NOT NULL, -- an object of texts
    business INTEGER NOT NULL,
    note     TEXT    NOT NULL,
    uses     INTEGER NOT NULL,
    used     INTEGER NOT NULL,
    created  INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    revoked  INTEGER NOT NULL
) STRICT;
CREATE INDEX join_tokens_expires ON join_tokens (expires);

ALTER TABLE agents ADD COLUMN token    TEXT    NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN labels   TEXT    NOT NULL DEFAULT '{}';
ALTER TABLE agents ADD COLUMN business INTEGER NOT NULL DEFAULT 0;

CREATE TABLE removed_agents (
    key TEXT    PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT;
