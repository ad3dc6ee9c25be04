-- What has happened to processes. The cursor is never given out twice, not even after the last event was removed.
CREATE TABLE events (
    cursor    INTEGER PRIMARY KEY AUTOINCREMENT,
    agent     TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    at        INTEGER NOT NULL, -- when it happened, in Unix milliseconds by the host's clock
    received  INTEGER NOT NULL,
    body      TEXT    NOT NULL
) STRICT;
CREATE INDEX events_at ON events (at);
CREATE INDEX events_process ON events (namespace, name, at);
CREATE INDEX events_agent ON events (agent, at);
CREATE INDEX events_kind ON events (kind, at);

-- How far each stream of events has been stored, so that an event that is told again is known, also once it has been removed.
CREATE TABLE event_streams (
    agent  TEXT    NOT NULL,
    stream TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    heard  INTEGER NOT NULL, -- when it was stored last
    PRIMARY KEY (agent, stream)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_streams_heard ON event_streams (heard);
