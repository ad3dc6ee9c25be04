-- Where alarms are delivered to, and how far each address has got in the events.
CREATE TABLE webhooks (
    name       TEXT    PRIMARY KEY,
    url        TEXT    NOT NULL,
    secret     TEXT    NOT NULL, -- as it is, since it signs
    namespaces TEXT    NOT NULL, -- a list of patterns
    local      INTEGER NOT NULL,
    note       TEXT    NOT NULL,
    created    INTEGER NOT NULL,
    changed    INTEGER NOT NULL,
    cursor     INTEGER NOT NULL,
    failures   INTEGER NOT NULL DEFAULT 0,
    failing    INTEGER NOT NULL DEFAULT 0,
    error      TEXT    NOT NULL DEFAULT '',
    next       INTEGER NOT NULL DEFAULT 0,
    delivered  INTEGER NOT NULL DEFAULT 0
) STRICT;
