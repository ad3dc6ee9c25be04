-- Times are Unix nanoseconds; 0 is the zero time. Flags are 0 or 1. JSON is text.
-- States of items are those of package task: 0 pending, 1 sent, 2 accepted, 3 begun, 4 done.

CREATE TABLE tasks (
    num        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    created    INTEGER NOT NULL,
    wire       TEXT    NOT NULL,
    -- The items are those numbered from first_item to before end_item: a range of the table itself needs no index.
    first_item INTEGER NOT NULL,
    end_item   INTEGER NOT NULL,
    -- Whether the shown items are in the order of their numbers.
    in_order   INTEGER NOT NULL
) STRICT;
CREATE INDEX tasks_created ON tasks (created);

CREATE TABLE requests (
    num         INTEGER PRIMARY KEY,
    task        INTEGER NOT NULL REFERENCES tasks (num) ON DELETE CASCADE,
    op          TEXT    NOT NULL,
    namespace   TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    -- What a poll shows of the spec, so that it need not decode it.
    proc_name   TEXT    NOT NULL,
    setup_path  TEXT    NOT NULL,
    func_id     TEXT    NOT NULL,
    instance_id TEXT    NOT NULL,
    spec        TEXT
) STRICT;
CREATE INDEX requests_task ON requests (task);

-- Items are numbered as they arrive. An id as agents see it is nonce and num, so that a database brought back from a backup
-- never gives out an id that an agent has seen.
CREATE TABLE items (
    num      INTEGER PRIMARY KEY,
    nonce    INTEGER NOT NULL,
    task     INTEGER NOT NULL,
    request  INTEGER NOT NULL,
    -- The place of its key among the keys of the task; null when a later item of the key is shown instead.
    rank     INTEGER,
    key      TEXT    NOT NULL,
    asked    TEXT    NOT NULL,
    agent    TEXT    NOT NULL,
    -- Hashes of the agent and of the process: all items with the same two run one after another.
    host     INTEGER NOT NULL,
    lane     INTEGER NOT NULL,
    state    INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    -- When it may be leased; null while an older item of its lane is not done, and once it is accepted.
    due      INTEGER,
    deadline INTEGER NOT NULL,
    fault    TEXT,
    text     TEXT,
    hosted   INTEGER,
    status   TEXT
) STRICT;
CREATE INDEX items_due ON items (due) WHERE state < 2 AND due IS NOT NULL;
CREATE INDEX items_lane ON items (host, lane) WHERE state < 4;
CREATE INDEX items_deadline ON items (deadline) WHERE state < 4;

CREATE TABLE agents (
    key     TEXT    PRIMARY KEY,
    cloud   INTEGER NOT NULL,
    ip      TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    build   TEXT    NOT NULL,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE observed (
    num       INTEGER PRIMARY KEY,
    agent     TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    status    TEXT NOT NULL,
    spec      TEXT
) STRICT;
CREATE UNIQUE INDEX observed_process ON observed (namespace, agent, name);
CREATE INDEX observed_agent ON observed (agent);

CREATE TABLE apps (
    code           TEXT    PRIMARY KEY,
    secret_hash    TEXT    NOT NULL,
    may_name_users INTEGER NOT NULL,
    created        INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
    num        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    remote     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    target     TEXT    NOT NULL,
    targets    INTEGER NOT NULL,
    allowed    INTEGER NOT NULL,
    code       INTEGER NOT NULL,
    message    TEXT    NOT NULL,
    detail     TEXT
) STRICT;

CREATE TABLE ping (
    num INTEGER PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT;
INSERT INTO ping VALUES (1, 0);
