-- Times are Unix nanoseconds; 0 is the zero time. Flags are 0 or 1. JSON is text.
-- States of items are those of package task: 0 pending, 1 sent, 2 accepted, 3 begun, 4 done.

CREATE TABLE tasks (
    num        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    created    INTEGER NOT NULL,
    -- The items are those numbered from first_item to before end_item: a range of the table itself needs no index.
    first_item INTEGER NOT NULL,
    end_item   INTEGER NOT NULL,
    -- Whether the shown items are in the order of their numbers.
    in_order   INTEGER NOT NULL,
    -- Whether the operations of one host wait for each other.
    ordered    INTEGER NOT NULL,
    -- The expression that selected the hosts, empty if there was none.
    selector   TEXT    NOT NULL DEFAULT '',
    -- Why a server made the task by itself, empty if it did not.
    reason     TEXT    NOT NULL DEFAULT '',
    -- Whether each host asks a server before it begins an operation.
    asks       INTEGER NOT NULL DEFAULT 0
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
    spec        TEXT,
    -- The request of the same task that holds the spec, where another one has brought it.
    spec_of     INTEGER,
    removes     INTEGER NOT NULL
) STRICT;
CREATE INDEX requests_task ON requests (task);

-- Items are numbered as they arrive. An id as agents see it is nonce and num, so that a database brought back from a backup
-- never gives out an id that an agent has seen.
CREATE TABLE items (
    num      INTEGER PRIMARY KEY,
    nonce    INTEGER NOT NULL,
    task     INTEGER NOT NULL,
    request  INTEGER NOT NULL,
    -- The item that asks for the same under another key, with which this one ends; null where there is none.
    twin     INTEGER,
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
    -- Whether it is sent although older items of its lane are not done: 0 never, 1 once the agent has these, 2 at once.
    passes   INTEGER NOT NULL,
    -- When it may be leased; null while an older item of its lane is not done, and once it is accepted.
    due      INTEGER,
    deadline INTEGER NOT NULL,
    -- When the agent is told that the item must not begin; the greatest number once it knows. Null while nobody has
    -- cancelled the item.
    cancel   INTEGER,
    fault    TEXT,
    text     TEXT,
    hosted   INTEGER,
    status   TEXT,
    -- The revision that brought the spec to its process; 0 where there is none.
    revision INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX items_twins ON items (twin) WHERE twin IS NOT NULL AND state < 4;
CREATE INDEX items_due ON items (due) WHERE state < 2 AND due IS NOT NULL;
-- What waits for an older item of its lane. As a rule that is nothing, and then the end of an item need not look for it.
CREATE INDEX items_waiting ON items (host, lane) WHERE state < 2 AND due IS NULL;
CREATE INDEX items_passing ON items (host, lane) WHERE state < 2 AND due IS NULL AND passes > 0;
CREATE INDEX items_lane ON items (host, lane) WHERE state < 4;
CREATE INDEX items_deadline ON items (deadline) WHERE state < 4;
CREATE INDEX items_cancel ON items (cancel) WHERE state < 3 AND cancel IS NOT NULL;

CREATE TABLE agents (
    key      TEXT    PRIMARY KEY,
    cloud    INTEGER NOT NULL,
    ip       TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    assigned TEXT    NOT NULL DEFAULT '', -- an id that a caller has given it
    build    TEXT    NOT NULL,
    created  INTEGER NOT NULL,
    -- What it has joined with.
    token    TEXT    NOT NULL DEFAULT '',
    labels   TEXT    NOT NULL DEFAULT '{}',
    business INTEGER NOT NULL DEFAULT 0,
    -- What it says of its host: the name, and which of several hosts with the same key is the one.
    name     TEXT    NOT NULL DEFAULT '',
    place    TEXT    NOT NULL DEFAULT '',
    host     TEXT    NOT NULL DEFAULT '{}', -- the facts and labels of the host itself, as a JSON object
    -- The labels that people have set, as a JSON object; null hides a label of another source.
    set_labels TEXT  NOT NULL DEFAULT '{}',
    -- The incarnation of the database to which the agent has told all that it has.
    told     TEXT    NOT NULL DEFAULT '',
    sealing  TEXT    NOT NULL DEFAULT '' -- the public key that messages to it are sealed with
) STRICT;
CREATE INDEX agents_address ON agents (cloud, ip);

-- Versions of the agent that the owner of the hosts has signed. A piece is in base64.
CREATE TABLE packages (
    version TEXT    NOT NULL,
    arch    TEXT    NOT NULL,
    signed  TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    adder   TEXT    NOT NULL, -- the user or app that has added it
    created INTEGER NOT NULL,
    PRIMARY KEY (version, arch)
) STRICT;
CREATE TABLE package_pieces (
    version TEXT    NOT NULL,
    arch    TEXT    NOT NULL,
    piece   INTEGER NOT NULL,
    data    TEXT    NOT NULL,
    PRIMARY KEY (version, arch, piece)
) STRICT;

-- What was removed, and of which area: a proxy's credential must not count again because an agent joins with its key.
-- The other columns say which host an agent had, for questions about the past.
CREATE TABLE removed_agents (
    key        TEXT    PRIMARY KEY,
    at         INTEGER NOT NULL,
    role       TEXT    NOT NULL DEFAULT '',
    area       INTEGER NOT NULL DEFAULT 0,
    ip         TEXT    NOT NULL DEFAULT '',
    id         TEXT    NOT NULL DEFAULT '',
    assigned   TEXT    NOT NULL DEFAULT '',
    created    INTEGER NOT NULL DEFAULT 0,
    labels     TEXT    NOT NULL DEFAULT '{}',
    set_labels TEXT    NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX removed_agents_at ON removed_agents (at) WHERE role = 'agent';

-- The last report of each agent that told something, so that one that was held up on its way does not come after it.
CREATE TABLE agent_reports (
    agent   TEXT    PRIMARY KEY,
    session TEXT    NOT NULL, -- of one run of the agent
    number  INTEGER NOT NULL
) STRICT;

CREATE TABLE proxies (
    key       TEXT    PRIMARY KEY,
    area      INTEGER NOT NULL,
    name      TEXT    NOT NULL UNIQUE,
    advertise TEXT    NOT NULL,
    build     TEXT    NOT NULL,
    token     TEXT    NOT NULL,
    created   INTEGER NOT NULL,
    sealing   TEXT    NOT NULL -- the public key that messages to it are sealed with
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
-- Lists of processes are in the order of namespace, name and agent.
CREATE INDEX observed_name ON observed (namespace, name, agent);

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

-- The latest revision of each namespace. Who makes the next one holds this row.
CREATE TABLE namespaces (
    namespace TEXT    PRIMARY KEY,
    revision  INTEGER NOT NULL
) STRICT;
CREATE INDEX namespaces_revision ON namespaces (revision);

-- Who changed the specs of a namespace, when and why.
CREATE TABLE revisions (
    namespace TEXT    NOT NULL,
    number    INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    app       TEXT    NOT NULL,
    user      TEXT    NOT NULL,
    through   TEXT    NOT NULL,
    message   TEXT    NOT NULL,
    task      TEXT    NOT NULL, -- its id; the task may be gone
    PRIMARY KEY (namespace, number)
) STRICT;
CREATE INDEX revisions_at ON revisions (at);

-- The distinct specs of the revisions, each once in a namespace.
CREATE TABLE specs (
    namespace TEXT NOT NULL,
    digest    TEXT NOT NULL,
    spec      TEXT NOT NULL,
    PRIMARY KEY (namespace, digest)
) STRICT;

-- Which spec a process has on a host, from one revision to before another one; until is 0 for those that are still in force.
CREATE TABLE placements (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    agent     TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    until     INTEGER NOT NULL DEFAULT 0,
    filed     INTEGER NOT NULL, -- the revision that placed what the file says then; 0 for none
    digest    TEXT    NOT NULL,
    -- What is in force is found at once, however often it was changed.
    PRIMARY KEY (namespace, name, agent, until)
) STRICT, WITHOUT ROWID;
CREATE INDEX placements_since ON placements (namespace, since, name, agent);
CREATE INDEX placements_until ON placements (namespace, until) WHERE until > 0;
CREATE INDEX placements_agent ON placements (agent) WHERE until = 0;
CREATE INDEX placements_ended ON placements (agent) WHERE until > 0;

-- Which hosts have a process by an expression, as the latest file says. Hosts that come to match get the spec.
CREATE TABLE selections (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    selector  TEXT    NOT NULL,
    spec      TEXT    NOT NULL,
    app       TEXT    NOT NULL,
    user      TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (namespace, name, selector)
) STRICT, WITHOUT ROWID;

-- What the servers did last by themselves about a process on a host, and whether the host has the process by a selection.
-- A row stays with its serial, so that nothing is done twice.
CREATE TABLE upkeep (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    agent     TEXT    NOT NULL,
    member    TEXT    NOT NULL,
    serial    INTEGER NOT NULL,
    goal      TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    tries     INTEGER NOT NULL,
    PRIMARY KEY (agent, namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX upkeep_process ON upkeep (namespace, name);

-- The groups of one agent are compared with what it has when it introduces itself, and go to whoever takes over its address.
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
CREATE INDEX groups_agent ON groups (agent);

CREATE TABLE apps (
    code           TEXT    PRIMARY KEY,
    may_name_users INTEGER NOT NULL,
    created        INTEGER NOT NULL,
    note           TEXT    NOT NULL DEFAULT '',
    secrets        TEXT    NOT NULL DEFAULT '[]', -- of {id, hash, created, expires}, times in RFC 3339
    admin          INTEGER NOT NULL DEFAULT 0,
    disabled       INTEGER NOT NULL DEFAULT 0,
    grants         TEXT    NOT NULL DEFAULT '[]',
    limits         TEXT    NOT NULL DEFAULT '{}',
    changed        INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE users (
    name     TEXT    PRIMARY KEY,
    note     TEXT    NOT NULL,
    disabled INTEGER NOT NULL,
    admin    INTEGER NOT NULL,
    grants   TEXT    NOT NULL,
    groups   TEXT    NOT NULL, -- an array of texts, of the identity provider
    created  INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    id      TEXT    PRIMARY KEY,
    kind    TEXT    NOT NULL, -- token, session, link or cli
    user    TEXT    NOT NULL REFERENCES users (name),
    hash    TEXT    NOT NULL UNIQUE,
    note    TEXT    NOT NULL,
    created INTEGER NOT NULL,
    seen    INTEGER NOT NULL,
    proved  INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    via     TEXT    NOT NULL -- ids of the tokens that it was made with, with blanks between them and around
) STRICT;
CREATE INDEX tokens_user ON tokens (user, created);

-- Command lines that wait until a person signs them in.
CREATE TABLE devices (
    hash    TEXT    PRIMARY KEY, -- of the token that the device holds
    code    TEXT    NOT NULL UNIQUE, -- hash of the letters that the person types
    name    TEXT    NOT NULL,
    remote  TEXT    NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX devices_expires ON devices (expires);

-- Named filters of the console.
CREATE TABLE views (
    id        TEXT    PRIMARY KEY,
    user      TEXT    NOT NULL,
    namespace TEXT    NOT NULL, -- where it is shared; empty: it is for its user alone
    name      TEXT    NOT NULL,
    query     TEXT    NOT NULL,
    created   INTEGER NOT NULL,
    UNIQUE (user, namespace, name)
) STRICT;
CREATE INDEX views_namespace ON views (namespace);

-- Who may join as what.
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
    revoked  INTEGER NOT NULL,
    role     TEXT    NOT NULL DEFAULT 'agent',
    replaces TEXT    NOT NULL DEFAULT '' -- the key of an agent
) STRICT;
CREATE INDEX join_tokens_expires ON join_tokens (expires);

-- The record of calls is read newest first, by what an investigation starts from.
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
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_app ON audit (app, at);
CREATE INDEX audit_user ON audit (user, at);
CREATE INDEX audit_request ON audit (request_id);
CREATE INDEX audit_denied ON audit (at) WHERE allowed = 0;

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
    -- A stream with records of states is a run of the agent. When it began, when it is last known to have lived, in Unix
    -- milliseconds by the host's clock, and its version; 0 for a stream of the servers.
    began  INTEGER NOT NULL DEFAULT 0,
    last   INTEGER NOT NULL DEFAULT 0,
    build  TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (agent, stream)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_streams_heard ON event_streams (heard);
CREATE INDEX event_streams_runs ON event_streams (agent, began) WHERE began > 0;
CREATE INDEX event_streams_began ON event_streams (began) WHERE began > 0;

-- What lists show of processes from a time on, as agents have recorded it. A row without a name is the start or the end of the agent.
CREATE TABLE states (
    cursor    INTEGER PRIMARY KEY,
    agent     TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    at        INTEGER NOT NULL, -- in Unix milliseconds by the host's clock
    received  INTEGER NOT NULL,
    body      TEXT    NOT NULL
) STRICT;
CREATE INDEX states_process ON states (namespace, name, agent, at);
CREATE INDEX states_agent ON states (agent, at);

-- The processes that have a state, each once.
CREATE TABLE state_processes (
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    agent     TEXT NOT NULL,
    PRIMARY KEY (namespace, name, agent)
) STRICT, WITHOUT ROWID;

-- Where numbers of a stream are missing: what was lost is older than the cursor, and not older than since.
CREATE TABLE event_gaps (
    agent    TEXT    NOT NULL,
    cursor   INTEGER NOT NULL,
    since    INTEGER NOT NULL, -- in Unix milliseconds by the host's clock
    received INTEGER NOT NULL,
    PRIMARY KEY (agent, cursor)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_gaps_received ON event_gaps (received);

-- When the servers did not hear an agent, by their clock; until is when it returned.
CREATE TABLE absences (
    agent TEXT    NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (agent, until)
) STRICT, WITHOUT ROWID;
CREATE INDEX absences_until ON absences (until);

-- Earlier stays of agents that have joined again after their removal, by the clock of the servers.
CREATE TABLE stays (
    agent   TEXT    NOT NULL,
    joined  INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    PRIMARY KEY (agent, removed)
) STRICT, WITHOUT ROWID;
CREATE INDEX stays_removed ON stays (removed);

-- Earlier names of agents, by the clock of the servers; until is when the agent got others.
CREATE TABLE former_names (
    agent    TEXT    NOT NULL,
    until    INTEGER NOT NULL,
    cloud    INTEGER NOT NULL,
    ip       TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    assigned TEXT    NOT NULL,
    PRIMARY KEY (agent, until)
) STRICT, WITHOUT ROWID;
CREATE INDEX former_names_until ON former_names (until);

-- The greatest cursors of an event and of a state that were given out, which every database can count without a gap.
CREATE TABLE counters (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO counters VALUES ('events', 0), ('states', 0);

-- Where alarms are delivered to, and how far each address has got in the events.
CREATE TABLE receivers (
    name      TEXT PRIMARY KEY,
    kind      TEXT NOT NULL,
    url       TEXT NOT NULL,
    secret    TEXT NOT NULL, -- sealed by the keys of the servers, since it signs
    wanted    TEXT NOT NULL, -- a JSON object
    mail      TEXT NOT NULL, -- a JSON object
    subject   TEXT NOT NULL, -- a template, as body
    body      TEXT NOT NULL,
    local     INTEGER NOT NULL,
    note      TEXT NOT NULL,
    created   INTEGER NOT NULL,
    changed   INTEGER NOT NULL,
    cursor    INTEGER NOT NULL,
    failures  INTEGER NOT NULL DEFAULT 0,
    failing   INTEGER NOT NULL DEFAULT 0,
    error     TEXT NOT NULL DEFAULT '',
    next      INTEGER NOT NULL DEFAULT 0,
    delivered INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Times in which alarms are withheld. A silence that was removed keeps its row until its events are removed.
CREATE TABLE silences (
    id        TEXT PRIMARY KEY,
    processes TEXT NOT NULL, -- a list of patterns
    hosts     TEXT NOT NULL, -- the same
    selector  TEXT NOT NULL,
    labels    TEXT NOT NULL,
    begins    INTEGER NOT NULL,
    ends      INTEGER NOT NULL,
    cron      TEXT NOT NULL, -- the timetable of its windows; empty: one window from begins to ends
    zone      TEXT NOT NULL,
    length    INTEGER NOT NULL, -- of each window
    message   TEXT NOT NULL,
    app       TEXT NOT NULL,
    "user"    TEXT NOT NULL,
    created   INTEGER NOT NULL,
    removed   INTEGER NOT NULL DEFAULT 0,
    withheld  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Withheld alarms of each receiver that may still hold at the end of their silence: the latest of each kind.
CREATE TABLE withheld_alarms (
    receiver  TEXT NOT NULL,
    agent     TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    kind      TEXT NOT NULL,
    schedule  TEXT NOT NULL, -- of an alarm about a schedule
    cursor    INTEGER NOT NULL,
    received  INTEGER NOT NULL,
    body      TEXT NOT NULL,
    PRIMARY KEY (receiver, agent, namespace, name, kind, schedule)
) STRICT;

-- The last breaker of each process: relaunches are withheld on all hosts while it is open.
CREATE TABLE breakers (
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    revision  INTEGER NOT NULL,
    cause     TEXT NOT NULL,
    failed    INTEGER NOT NULL,
    hosts     INTEGER NOT NULL,
    agent     TEXT NOT NULL, -- the host that failed last
    opened    INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    closed    INTEGER NOT NULL DEFAULT 0, -- 0 while it is open
    closed_by TEXT NOT NULL DEFAULT '',
    told      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name)
) STRICT;

-- What the servers of a fleet agree on, and which of them does what only one may do.
CREATE TABLE fleet (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- The runs of servers of the last days, each by its own word.
CREATE TABLE servers (
    id      TEXT    PRIMARY KEY,
    name    TEXT    NOT NULL,
    started INTEGER NOT NULL,
    beat    INTEGER NOT NULL, -- when it said so last
    ended   INTEGER NOT NULL, -- 1 if it said that it ends
    keys    TEXT    NOT NULL, -- a list of the keys whose private halves it holds
    agents  TEXT              -- a list of those it hears; null while it hears all other servers
) STRICT;

-- The addresses by which proxies reach the servers.
CREATE TABLE hubs (
    address TEXT    PRIMARY KEY,
    seen    INTEGER NOT NULL -- when a server had it last
) STRICT;
CREATE INDEX hubs_by_age ON hubs (seen);

CREATE TABLE leases (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL
) STRICT;

CREATE TABLE ping (
    num INTEGER PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT;
INSERT INTO ping VALUES (1, 0);

-- Calls that were answered before their tasks had ended, so that their callers will ask again.
CREATE TABLE repeats (
    matter TEXT    PRIMARY KEY, -- whose call it is and about what
    what   TEXT    NOT NULL,    -- what it asks for
    task   TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
CREATE INDEX repeats_at ON repeats (at);

-- Pages of a namespace are in the order in which its processes were first heard of.
CREATE INDEX observed_page ON observed (namespace, num);

-- Rollouts of operations and applies, as package rollout decides about them. Times are 0 while they are unknown.
CREATE TABLE rollouts (
    num          INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    app          TEXT NOT NULL,
    "user"       TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    created      INTEGER NOT NULL,
    op           TEXT NOT NULL,
    host_timeout INTEGER NOT NULL,
    selector     TEXT NOT NULL,
    total        INTEGER NOT NULL,
    plan         TEXT NOT NULL, -- a JSON object
    begins       INTEGER NOT NULL,
    approvals    TEXT NOT NULL, -- a JSON object
    undoes       TEXT NOT NULL, -- the id of another rollout
    schedule     TEXT NOT NULL, -- the one that the rollout is a run of
    through      TEXT NOT NULL, -- for the revisions
    message      TEXT NOT NULL,
    state        TEXT NOT NULL,
    reason       TEXT NOT NULL,
    batch        INTEGER NOT NULL,
    settled      INTEGER NOT NULL,
    forgiven     INTEGER NOT NULL,
    selections   TEXT, -- a JSON object; NULL if it is in force, or if there is none
    former       TEXT -- a JSON object
) STRICT;
CREATE INDEX rollouts_created ON rollouts (created);
CREATE INDEX rollouts_state ON rollouts (state, num);

-- The operations of a rollout, in the order in which each host carries out those of its steps.
CREATE TABLE rollout_steps (
    rollout   TEXT NOT NULL,
    place     INTEGER NOT NULL,
    op        TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    removes   INTEGER NOT NULL,
    spec      TEXT, -- null: each host uses the spec that it has
    former    TEXT, -- the spec that hosts had before; null: none
    PRIMARY KEY (rollout, place)
) STRICT;
CREATE INDEX rollout_steps_process ON rollout_steps (namespace, name, rollout);

-- The task of a batch has the id of the rollout and the number of the batch, so that no batch has two tasks.
CREATE TABLE rollout_hosts (
    rollout   TEXT NOT NULL,
    place     INTEGER NOT NULL,
    agent     TEXT NOT NULL,
    name      TEXT NOT NULL,
    steps     TEXT NOT NULL, -- a JSON array of their places
    batch     INTEGER NOT NULL,
    state     TEXT NOT NULL,
    begun     INTEGER NOT NULL,
    cause     TEXT NOT NULL,
    text      TEXT NOT NULL,
    PRIMARY KEY (rollout, place)
) STRICT;
CREATE INDEX rollout_hosts_open ON rollout_hosts (state, rollout) WHERE state IN ('begun', 'baking');

-- Operations that the servers begin at the times of a timetable.
CREATE TABLE schedules (
    name      TEXT PRIMARY KEY,
    app       TEXT NOT NULL,
    "user"    TEXT NOT NULL, -- each run has the rights of this person
    created   INTEGER NOT NULL, -- distinguishes the schedule from an earlier one of the same name
    cron      TEXT NOT NULL,
    zone      TEXT NOT NULL,
    message   TEXT NOT NULL,
    request   TEXT NOT NULL, -- a JSON object
    paused    INTEGER NOT NULL,
    looked    INTEGER NOT NULL, -- the time up to which the servers have decided about all runs
    missed    INTEGER NOT NULL DEFAULT 0,
    -- The host and the process of the alarm about the schedule; empty if there is none.
    failing_agent     TEXT NOT NULL DEFAULT '',
    failing_namespace TEXT NOT NULL DEFAULT '',
    failing_name      TEXT NOT NULL DEFAULT ''
) STRICT;

-- The latest runs of each schedule. A run is stored in the transaction of its task or rollout.
CREATE TABLE schedule_runs (
    schedule  TEXT NOT NULL,
    due       INTEGER NOT NULL,
    state     TEXT NOT NULL,
    text      TEXT NOT NULL,
    task      TEXT NOT NULL,
    rollout   TEXT NOT NULL,
    count     INTEGER NOT NULL, -- the due times that the row stands for
    ended     INTEGER NOT NULL, -- 0 while it goes on
    "user"    TEXT NOT NULL, -- who began it by hand
    PRIMARY KEY (schedule, due)
) STRICT;
CREATE INDEX schedule_runs_open ON schedule_runs (schedule) WHERE state = 'running';

-- The exact processes that somebody has chosen and not operated on yet.
CREATE TABLE held_selections (
    num     INTEGER PRIMARY KEY,
    id      TEXT    NOT NULL UNIQUE,
    app     TEXT    NOT NULL,
    "user"  TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    filter  TEXT    NOT NULL, -- a JSON object
    targets TEXT    NOT NULL  -- a JSON array
) STRICT;
CREATE INDEX held_selections_until ON held_selections (until);
CREATE INDEX held_selections_owner ON held_selections (app, "user", num);
