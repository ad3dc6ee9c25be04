-- What the servers of a fleet agree on, and which of them does what only one may do.
CREATE TABLE fleet (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE leases (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL
) STRICT;

-- The greatest cursor of an event that was given out, which every database can count without a gap.
CREATE TABLE counters (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO counters VALUES ('events', coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0));

-- The last report of each agent that told something, so that one that was held up on its way does not come after it.
CREATE TABLE agent_reports (
    agent   TEXT    PRIMARY KEY,
    session TEXT    NOT NULL, -- of one run of the agent
    number  INTEGER NOT NULL
) STRICT;
