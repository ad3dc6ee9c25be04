-- An app may have two secrets, rights and limits. Until now every app could do everything.
ALTER TABLE apps ADD COLUMN note     TEXT    NOT NULL DEFAULT '';
ALTER TABLE apps ADD COLUMN secrets  TEXT    NOT NULL DEFAULT '[]'; -- of {id, hash, created, expires}, times in RFC 3339
ALTER TABLE apps ADD COLUMN admin    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE apps ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE apps ADD COLUMN grants   TEXT    NOT NULL DEFAULT '[]';
ALTER TABLE apps ADD COLUMN limits   TEXT    NOT NULL DEFAULT '{}';
ALTER TABLE apps ADD COLUMN changed  INTEGER NOT NULL DEFAULT 0;
UPDATE apps SET admin = 1, changed = created, secrets = json_array(json_object('id', 'first', 'hash', secret_hash,
    'created', strftime('%Y-%m-%dT%H:%M:%SZ', created / 1000000000, 'unixepoch')));
ALTER TABLE apps DROP COLUMN secret_hash;

CREATE TABLE users (
    name     TEXT    PRIMARY KEY,
    note     TEXT    NOT NULL,
    disabled INTEGER NOT NULL,
    created  INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    id      TEXT    PRIMARY KEY,
    user    TEXT    NOT NULL REFERENCES users (name),
    hash    TEXT    NOT NULL UNIQUE,
    note    TEXT    NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX tokens_user ON tokens (user, created);

-- The record of calls is read newest first, by what an investigation starts from.
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_app ON audit (app, at);
CREATE INDEX audit_user ON audit (user, at);
CREATE INDEX audit_request ON audit (request_id);
CREATE INDEX audit_denied ON audit (at) WHERE allowed = 0;
