-- Process groups, and ids that callers have assigned to agents.

CREATE TABLE groups (
    namespace  TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    place      INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    cpu_limit  REAL    NOT NULL,
    mem_limit  REAL    NOT NULL,
    cpu_weight INTEGER NOT NULL,
    mem_weight INTEGER NOT NULL,
    PRIMARY KEY (namespace, agent, place),
    UNIQUE (namespace, agent, id)
) STRICT, WITHOUT ROWID;

ALTER TABLE agents ADD COLUMN assigned TEXT NOT NULL DEFAULT '';
