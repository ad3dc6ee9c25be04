-- What each agent was last known to have on its disk, by the highest revision that it told of each process. It is written with the
-- observations that bring it, and unlike them it stays when an old disk says something else.
CREATE TABLE confirmed (
    num        INTEGER PRIMARY KEY,
    agent      TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    gone       INTEGER NOT NULL, -- when its removal was stored; 0 for a process that the agent has
    hosted     INTEGER NOT NULL DEFAULT 0,
    want       TEXT    NOT NULL DEFAULT '',
    registered INTEGER NOT NULL DEFAULT 0, -- Unix seconds, by the clock of the host
    spec       TEXT                        -- null when it is gone
) STRICT;
CREATE UNIQUE INDEX confirmed_process ON confirmed (agent, namespace, name);
CREATE INDEX confirmed_gone ON confirmed (gone) WHERE gone > 0;
