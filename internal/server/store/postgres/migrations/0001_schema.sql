-- The schema is that of the other database of the store, of the same version.
--
-- Times are Unix nanoseconds; 0 is the zero time. Flags are 0 or 1. JSON is text, which keeps it to the letter.
-- States of items are those of package task: 0 pending, 1 sent, 2 accepted, 3 begun, 4 done.
-- What is ordered or compared with patterns is so by its bytes, whatever the language of the database.

CREATE TABLE tasks (
    num        bigint   PRIMARY KEY,
    id         text     NOT NULL UNIQUE,
    app        text     NOT NULL,
    "user"     text     NOT NULL,
    request_id text     NOT NULL,
    created    bigint   NOT NULL,
    -- The items are those numbered from first_item to before end_item.
    first_item bigint   NOT NULL,
    end_item   bigint   NOT NULL,
    -- Whether the shown items are in the order of their numbers.
    in_order   smallint NOT NULL,
    -- Whether the operations of one host wait for each other.
    ordered    smallint NOT NULL,
    -- The expression that selected the hosts, empty if there was none.
    selector   text     NOT NULL DEFAULT '',
    -- Why a server made the task by itself, empty if it did not.
    reason     text NOT NULL DEFAULT '',
    -- Whether each host asks a server before it begins an operation.
    asks       bigint NOT NULL DEFAULT 0
);
CREATE INDEX tasks_created ON tasks (created, num);

-- A task has the next of these numbers, and its items and requests those from it, shifted by 24 bits, on.
CREATE SEQUENCE task_numbers;

CREATE TABLE requests (
    num         bigint PRIMARY KEY,
    task        bigint NOT NULL REFERENCES tasks (num) ON DELETE CASCADE,
    op          text   NOT NULL,
    namespace   text   NOT NULL,
    name        text   NOT NULL,
    -- What a poll shows of the spec, so that it need not decode it.
    proc_name   text   NOT NULL,
    setup_path  text   NOT NULL,
    func_id     text   NOT NULL,
    instance_id text   NOT NULL,
    spec        text,
    -- The request that holds the spec, where another one has brought it.
    spec_of     bigint,
    removes     bigint NOT NULL
);
CREATE INDEX requests_task ON requests (task, num);

-- Items are numbered as they arrive. An id as agents see it is nonce and num, so that a database brought back from a backup
-- never gives out an id that an agent has seen.
CREATE TABLE items (
    num      bigint   PRIMARY KEY,
    nonce    bigint   NOT NULL,
    task     bigint   NOT NULL,
    request  bigint   NOT NULL,
    -- The item that asks for the same under another key, with which this one ends; null where there is none.
    twin     bigint,
    -- The place of its key among the keys of the task; null when a later item of the key is shown instead.
    rank     bigint,
    key      text     NOT NULL,
    asked    text     NOT NULL,
    agent    text     NOT NULL,
    -- Hashes of the agent and of the process: all items with the same two run one after another.
    host     bigint   NOT NULL,
    lane     bigint   NOT NULL,
    state    smallint NOT NULL,
    attempts bigint   NOT NULL,
    -- Whether it is sent although older items of its lane are not done: 0 never, 1 once the agent has these, 2 at once.
    passes   smallint NOT NULL,
    -- When it may be leased; null while an older item of its lane is not done, and once it is accepted.
    due      bigint,
    deadline bigint   NOT NULL,
    -- When the agent is told that the item must not begin; the greatest number once it knows. Null while nobody has
    -- cancelled the item.
    cancel   bigint,
    fault    text,
    text     text,
    hosted   smallint,
    status   text,
    -- The revision that brought the spec to its process; 0 where there is none.
    revision bigint   NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX items_twins ON items (twin) WHERE twin IS NOT NULL AND state < 4;
CREATE INDEX items_due ON items (due, num) WHERE state < 2 AND due IS NOT NULL;
CREATE INDEX items_waiting ON items (host, lane) WHERE state < 2 AND due IS NULL;
CREATE INDEX items_passing ON items (host, lane) WHERE state < 2 AND due IS NULL AND passes > 0;
CREATE INDEX items_lane ON items (host, lane, num) WHERE state < 4;
CREATE INDEX items_deadline ON items (deadline, num) WHERE state < 4;
CREATE INDEX items_cancel ON items (cancel) WHERE state < 3 AND cancel IS NOT NULL;

CREATE TABLE agents (
    key      text   COLLATE "C" PRIMARY KEY,
    cloud    bigint NOT NULL,
    ip       text   COLLATE "C" NOT NULL,
    id       text   NOT NULL,
    assigned text   NOT NULL DEFAULT '',
    build    text   NOT NULL,
    created  bigint NOT NULL,
    token    text   NOT NULL DEFAULT '',
    labels   text   NOT NULL DEFAULT '{}',
    business bigint NOT NULL DEFAULT 0,
    -- What it says of its host: the name, and which of several hosts with the same key is the one.
    name     text   NOT NULL DEFAULT '',
    place    text   NOT NULL DEFAULT '',
    host     text   NOT NULL DEFAULT '{}', -- the facts and labels of the host itself, as a JSON object
    -- The labels that people have set, as a JSON object; null hides a label of another source.
    set_labels text NOT NULL DEFAULT '{}',
    -- The incarnation of the database to which the agent has told all that it has.
    told     text NOT NULL DEFAULT '',
    sealing  text   NOT NULL DEFAULT '' -- the public key that messages to it are sealed with
);
CREATE INDEX agents_address ON agents (cloud, ip, key);

-- Versions of the agent that the owner of the hosts has signed. A piece is in base64.
CREATE TABLE packages (
    version text   COLLATE "C" NOT NULL,
    arch    text   COLLATE "C" NOT NULL,
    signed  text   NOT NULL,
    size    bigint NOT NULL,
    adder   text   NOT NULL,
    created bigint NOT NULL,
    PRIMARY KEY (version, arch)
);
CREATE TABLE package_pieces (
    version text   COLLATE "C" NOT NULL,
    arch    text   COLLATE "C" NOT NULL,
    piece   bigint NOT NULL,
    data    text   NOT NULL,
    PRIMARY KEY (version, arch, piece)
);

-- What was removed, and of which area: a proxy's credential must not count again because an agent joins with its key.
-- The other columns say which host an agent had, for questions about the past.
CREATE TABLE removed_agents (
    key        text   COLLATE "C" PRIMARY KEY,
    at         bigint NOT NULL,
    role       text   NOT NULL DEFAULT '',
    area       bigint NOT NULL DEFAULT 0,
    ip         text   NOT NULL DEFAULT '',
    id         text   NOT NULL DEFAULT '',
    assigned   text   NOT NULL DEFAULT '',
    created    bigint NOT NULL DEFAULT 0,
    labels     text   NOT NULL DEFAULT '{}',
    set_labels text   NOT NULL DEFAULT '{}'
);
CREATE INDEX removed_agents_at ON removed_agents (at) WHERE role = 'agent';

-- The place of the last report of each agent that told something or began a session.
CREATE TABLE agent_reports (
    agent   text   PRIMARY KEY,
    session text   NOT NULL,
    number  bigint NOT NULL
);

CREATE TABLE proxies (
    key       text   COLLATE "C" PRIMARY KEY,
    area      bigint NOT NULL,
    name      text   COLLATE "C" NOT NULL UNIQUE,
    advertise text   NOT NULL,
    build     text   NOT NULL,
    token     text   NOT NULL,
    created   bigint NOT NULL,
    sealing   text   NOT NULL -- the public key that messages to it are sealed with
);

CREATE TABLE observed (
    num       bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    agent     text   COLLATE "C" NOT NULL,
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    status    text   NOT NULL,
    spec      text
);
CREATE UNIQUE INDEX observed_process ON observed (namespace, agent, name);
CREATE INDEX observed_agent ON observed (agent);
CREATE INDEX observed_name ON observed (namespace, name, agent);

CREATE TABLE confirmed (
    num        bigint   GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    agent      text     COLLATE "C" NOT NULL,
    namespace  text     COLLATE "C" NOT NULL,
    name       text     COLLATE "C" NOT NULL,
    revision   bigint   NOT NULL,
    gone       bigint   NOT NULL, -- when its removal was stored; 0 for a process that the agent has
    hosted     smallint NOT NULL DEFAULT 0,
    want       text     NOT NULL DEFAULT '',
    registered bigint   NOT NULL DEFAULT 0, -- Unix seconds, by the clock of the host
    spec       text                         -- null when it is gone
);
CREATE UNIQUE INDEX confirmed_process ON confirmed (agent, namespace, name);
CREATE INDEX confirmed_gone ON confirmed (gone) WHERE gone > 0;

CREATE TABLE namespaces (
    namespace text   COLLATE "C" PRIMARY KEY,
    revision  bigint NOT NULL
);
CREATE INDEX namespaces_revision ON namespaces (revision);

CREATE TABLE revisions (
    namespace text   COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    at        bigint NOT NULL,
    app       text   NOT NULL,
    "user"    text   NOT NULL,
    through   text   NOT NULL,
    message   text   NOT NULL,
    task      text   NOT NULL, -- its id; the task may be gone
    PRIMARY KEY (namespace, number)
);
CREATE INDEX revisions_at ON revisions (at);

CREATE TABLE specs (
    namespace text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    spec      text NOT NULL,
    PRIMARY KEY (namespace, digest)
);

CREATE TABLE placements (
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    agent     text   COLLATE "C" NOT NULL,
    since     bigint NOT NULL,
    until     bigint NOT NULL DEFAULT 0, -- 0 for those that are still in force
    filed     bigint NOT NULL, -- the revision that placed what the file says then; 0 for none
    digest    text   COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, name, agent, until)
);
CREATE INDEX placements_since ON placements (namespace, since, name, agent);
CREATE INDEX placements_until ON placements (namespace, until) WHERE until > 0;
CREATE INDEX placements_agent ON placements (agent) WHERE until = 0;
CREATE INDEX placements_ended ON placements (agent) WHERE until > 0;

-- Which hosts have a process by an expression, as the latest file says. Hosts that come to match get the spec.
CREATE TABLE selections (
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    selector  text   COLLATE "C" NOT NULL,
    spec      text   NOT NULL,
    app       text   NOT NULL,
    "user"    text   NOT NULL,
    at        bigint NOT NULL,
    PRIMARY KEY (namespace, name, selector)
);

-- What the servers did last by themselves about a process on a host, and whether the host has the process by a selection.
-- A row stays with its serial, so that nothing is done twice.
CREATE TABLE upkeep (
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    agent     text   COLLATE "C" NOT NULL,
    member    text   NOT NULL,
    serial    bigint NOT NULL,
    goal      text   NOT NULL,
    at        bigint NOT NULL,
    tries     bigint NOT NULL,
    PRIMARY KEY (agent, namespace, name)
);
CREATE INDEX upkeep_process ON upkeep (namespace, name);

CREATE TABLE groups (
    namespace  text   COLLATE "C" NOT NULL,
    agent      text   COLLATE "C" NOT NULL,
    place      bigint NOT NULL,
    id         text   NOT NULL,
    cpu_limit  double precision NOT NULL,
    mem_limit  double precision NOT NULL,
    cpu_weight bigint NOT NULL,
    mem_weight bigint NOT NULL,
    PRIMARY KEY (namespace, agent, place),
    UNIQUE (namespace, agent, id)
);
CREATE INDEX groups_agent ON groups (agent);

CREATE TABLE apps (
    code           text     COLLATE "C" PRIMARY KEY,
    may_name_users smallint NOT NULL,
    created        bigint   NOT NULL,
    note           text     NOT NULL DEFAULT '',
    secrets        text     NOT NULL DEFAULT '[]', -- of {id, hash, created, expires}, times in RFC 3339
    admin          smallint NOT NULL DEFAULT 0,
    disabled       smallint NOT NULL DEFAULT 0,
    grants         text     NOT NULL DEFAULT '[]',
    limits         text     NOT NULL DEFAULT '{}',
    changed        bigint   NOT NULL DEFAULT 0
);

CREATE TABLE users (
    name     text     COLLATE "C" PRIMARY KEY,
    note     text     NOT NULL,
    disabled smallint NOT NULL,
    admin    smallint NOT NULL,
    grants   text     NOT NULL,
    groups   text     NOT NULL, -- an array of texts, of the identity provider
    created  bigint   NOT NULL
);

CREATE TABLE tokens (
    id      text   COLLATE "C" PRIMARY KEY,
    kind    text   NOT NULL, -- token, session, link or cli
    "user"  text   COLLATE "C" NOT NULL REFERENCES users (name),
    hash    text   NOT NULL UNIQUE,
    note    text   NOT NULL,
    created bigint NOT NULL,
    seen    bigint NOT NULL,
    proved  bigint NOT NULL,
    expires bigint NOT NULL,
    via     text   NOT NULL -- ids of the tokens that it was made with, with blanks between them and around
);
CREATE INDEX tokens_user ON tokens ("user", created);

-- Command lines that wait until a person signs them in.
CREATE TABLE devices (
    hash    text   COLLATE "C" PRIMARY KEY, -- of the token that the device holds
    code    text   COLLATE "C" NOT NULL UNIQUE, -- hash of the letters that the person types
    name    text   NOT NULL,
    remote  text   NOT NULL,
    created bigint NOT NULL,
    expires bigint NOT NULL
);
CREATE INDEX devices_expires ON devices (expires);

-- Named filters of the console.
CREATE TABLE views (
    id        text   COLLATE "C" PRIMARY KEY,
    "user"    text   COLLATE "C" NOT NULL,
    namespace text   COLLATE "C" NOT NULL, -- where it is shared; empty: it is for its user alone
    name      text   COLLATE "C" NOT NULL,
    query     text   NOT NULL,
    created   bigint NOT NULL,
    UNIQUE ("user", namespace, name)
);
CREATE INDEX views_namespace ON views (namespace);

CREATE TABLE join_tokens (
    id       text   COLLATE "C" PRIMARY KEY, -- in the order of their making
    hash     text   NOT NULL,
    cloud    bigint NOT NULL,
    labels   text   NOT NULL, -- an object of texts
    business bigint NOT NULL,
    note     text   NOT NULL,
    uses     bigint NOT NULL,
    used     bigint NOT NULL,
    created  bigint NOT NULL,
    expires  bigint NOT NULL,
    revoked  bigint NOT NULL,
    role     text   NOT NULL DEFAULT 'agent',
    replaces text   NOT NULL DEFAULT '' -- the key of an agent
);
CREATE INDEX join_tokens_expires ON join_tokens (expires);

-- The record of calls is read newest first, by what an investigation starts from.
CREATE TABLE audit (
    num        bigint   GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at         bigint   NOT NULL,
    app        text     NOT NULL,
    "user"     text     NOT NULL,
    remote     text     NOT NULL,
    request_id text     NOT NULL,
    action     text     NOT NULL,
    target     text     NOT NULL,
    targets    bigint   NOT NULL,
    allowed    smallint NOT NULL,
    code       bigint   NOT NULL,
    message    text     NOT NULL,
    detail     text
);
CREATE INDEX audit_at ON audit (at, num);
CREATE INDEX audit_app ON audit (app, at, num);
CREATE INDEX audit_user ON audit ("user", at, num);
CREATE INDEX audit_request ON audit (request_id);
CREATE INDEX audit_denied ON audit (at, num) WHERE allowed = 0;

-- What has happened to processes.
CREATE TABLE events (
    cursor    bigint PRIMARY KEY,
    agent     text   COLLATE "C" NOT NULL,
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    kind      text   NOT NULL,
    at        bigint NOT NULL, -- when it happened, in Unix milliseconds by the host's clock
    received  bigint NOT NULL,
    body      text   NOT NULL
);
CREATE INDEX events_at ON events (at, cursor);
CREATE INDEX events_process ON events (namespace, name, at, cursor);
CREATE INDEX events_agent ON events (agent, at, cursor);
CREATE INDEX events_kind ON events (kind, at, cursor);

-- The greatest cursors of an event and of a state that were given out. Whoever gives out more holds its row until they can be read, so that nobody reads
-- a later one first.
CREATE TABLE counters (
    name  text   PRIMARY KEY,
    value bigint NOT NULL
);
INSERT INTO counters VALUES ('events', 0), ('states', 0);

-- How far each stream of events has been stored, so that an event that is told again is known, also once it has been removed.
CREATE TABLE event_streams (
    agent  text   NOT NULL,
    stream text   NOT NULL,
    seq    bigint NOT NULL,
    heard  bigint NOT NULL, -- when it was stored last
    -- A stream with records of states is a run of the agent. When it began, when it is last known to have lived, in Unix
    -- milliseconds by the host's clock, and its version; 0 for a stream of the servers.
    began  bigint NOT NULL DEFAULT 0,
    last   bigint NOT NULL DEFAULT 0,
    build  text   NOT NULL DEFAULT '',
    PRIMARY KEY (agent, stream)
);
CREATE INDEX event_streams_heard ON event_streams (heard);
CREATE INDEX event_streams_runs ON event_streams (agent, began) WHERE began > 0;
CREATE INDEX event_streams_began ON event_streams (began) WHERE began > 0;

-- What lists show of processes from a time on, as agents have recorded it. A row without a name is the start or the end of the agent.
CREATE TABLE states (
    cursor    bigint PRIMARY KEY,
    agent     text   COLLATE "C" NOT NULL,
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    at        bigint NOT NULL, -- in Unix milliseconds by the host's clock
    received  bigint NOT NULL,
    body      text   NOT NULL
);
CREATE INDEX states_process ON states (namespace, name, agent, at, cursor);
CREATE INDEX states_agent ON states (agent, at, cursor);

-- The processes that have a state, each once.
CREATE TABLE state_processes (
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    agent     text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, name, agent)
);

-- Where numbers of a stream are missing: what was lost is older than the cursor, and not older than since.
CREATE TABLE event_gaps (
    agent    text   NOT NULL,
    cursor   bigint NOT NULL,
    since    bigint NOT NULL, -- in Unix milliseconds by the host's clock
    received bigint NOT NULL,
    PRIMARY KEY (agent, cursor)
);
CREATE INDEX event_gaps_received ON event_gaps (received);

-- When the servers did not hear an agent, by their clock; until is when it returned.
CREATE TABLE absences (
    agent text   NOT NULL,
    since bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (agent, until)
);
CREATE INDEX absences_until ON absences (until);

-- Earlier stays of agents that have joined again after their removal, by the clock of the servers.
CREATE TABLE stays (
    agent   text   NOT NULL,
    joined  bigint NOT NULL,
    removed bigint NOT NULL,
    PRIMARY KEY (agent, removed)
);
CREATE INDEX stays_removed ON stays (removed);

-- Earlier names of agents, by the clock of the servers; until is when the agent got others.
CREATE TABLE former_names (
    agent    text   NOT NULL,
    until    bigint NOT NULL,
    cloud    bigint NOT NULL,
    ip       text   NOT NULL,
    id       text   NOT NULL,
    assigned text   NOT NULL,
    PRIMARY KEY (agent, until)
);
CREATE INDEX former_names_until ON former_names (until);

-- Where alarms are delivered to, and how far each address has got in the events.
CREATE TABLE receivers (
    name      text COLLATE "C" PRIMARY KEY,
    kind      text NOT NULL,
    url       text NOT NULL,
    secret    text NOT NULL, -- sealed by the keys of the servers, since it signs
    wanted    text NOT NULL, -- a JSON object
    mail      text NOT NULL, -- a JSON object
    subject   text NOT NULL, -- a template, as body
    body      text NOT NULL,
    local     smallint NOT NULL,
    note      text NOT NULL,
    created   bigint NOT NULL,
    changed   bigint NOT NULL,
    cursor    bigint NOT NULL,
    failures  bigint NOT NULL DEFAULT 0,
    failing   bigint NOT NULL DEFAULT 0,
    error     text NOT NULL DEFAULT '',
    next      bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0
);

-- Times in which alarms are withheld. A silence that was removed keeps its row until its events are removed.
CREATE TABLE silences (
    id        text COLLATE "C" PRIMARY KEY,
    processes text NOT NULL, -- a list of patterns
    hosts     text NOT NULL, -- the same
    selector  text NOT NULL,
    labels    text NOT NULL,
    begins    bigint NOT NULL,
    ends      bigint NOT NULL,
    cron      text NOT NULL, -- the timetable of its windows; empty: one window from begins to ends
    zone      text NOT NULL,
    length    bigint NOT NULL, -- of each window
    message   text NOT NULL,
    app       text NOT NULL,
    "user"    text NOT NULL,
    created   bigint NOT NULL,
    removed   bigint NOT NULL DEFAULT 0,
    withheld  bigint NOT NULL DEFAULT 0
);

-- Withheld alarms of each receiver that may still hold at the end of their silence: the latest of each kind.
CREATE TABLE withheld_alarms (
    receiver  text COLLATE "C" NOT NULL,
    agent     text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    schedule  text COLLATE "C" NOT NULL, -- of an alarm about a schedule
    cursor    bigint NOT NULL,
    received  bigint NOT NULL,
    body      text NOT NULL,
    PRIMARY KEY (receiver, agent, namespace, name, kind, schedule)
);

-- The last breaker of each process: relaunches are withheld on all hosts while it is open.
CREATE TABLE breakers (
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    revision  bigint NOT NULL,
    cause     text NOT NULL,
    failed    bigint NOT NULL,
    hosts     bigint NOT NULL,
    agent     text NOT NULL, -- the host that failed last
    opened    bigint NOT NULL,
    until     bigint NOT NULL,
    closed    bigint NOT NULL DEFAULT 0, -- 0 while it is open
    closed_by text NOT NULL DEFAULT '',
    told      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name)
);

-- What the servers of a fleet agree on, and which of them does what only one may do.
CREATE TABLE fleet (
    key   text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- The runs of servers of the last days, each by its own word.
CREATE TABLE servers (
    id      text   PRIMARY KEY,
    name    text   NOT NULL,
    started bigint NOT NULL,
    beat    bigint NOT NULL, -- when it said so last
    ended   bigint NOT NULL, -- 1 if it said that it ends
    keys    text   NOT NULL, -- a list of the keys whose private halves it holds
    agents  text             -- a list of those it hears; null while it hears all other servers
);

-- The addresses by which proxies reach the servers.
CREATE TABLE hubs (
    address text   PRIMARY KEY,
    seen    bigint NOT NULL -- when a server had it last
);
CREATE INDEX hubs_by_age ON hubs (seen);

CREATE TABLE leases (
    name   text   PRIMARY KEY,
    holder text   NOT NULL,
    until  bigint NOT NULL
);

CREATE TABLE ping (
    num bigint PRIMARY KEY,
    at  bigint NOT NULL
);
INSERT INTO ping VALUES (1, 0);

-- Calls that were answered before their tasks had ended, so that their callers will ask again.
CREATE TABLE repeats (
    matter text   COLLATE "C" PRIMARY KEY, -- whose call it is and about what
    what   text   NOT NULL,                -- what it asks for
    task   text   NOT NULL,
    at     bigint NOT NULL
);
CREATE INDEX repeats_at ON repeats (at);

-- Pages of a namespace are in the order in which its processes were first heard of.
CREATE INDEX observed_page ON observed (namespace, num);

-- Rollouts of operations and applies, as package rollout decides about them. Times are 0 while they are unknown.
CREATE TABLE rollouts (
    num          bigint PRIMARY KEY,
    id           text COLLATE "C" NOT NULL UNIQUE,
    app          text COLLATE "C" NOT NULL,
    "user"       text NOT NULL,
    request_id   text NOT NULL,
    created      bigint NOT NULL,
    op           text NOT NULL,
    host_timeout bigint NOT NULL,
    selector     text NOT NULL,
    total        bigint NOT NULL,
    plan         text NOT NULL, -- a JSON object
    begins       bigint NOT NULL,
    approvals    text NOT NULL, -- a JSON object
    undoes       text NOT NULL, -- the id of another rollout
    schedule     text NOT NULL, -- the one that the rollout is a run of
    through      text NOT NULL, -- for the revisions
    message      text NOT NULL,
    state        text NOT NULL,
    reason       text NOT NULL,
    batch        bigint NOT NULL,
    settled      bigint NOT NULL,
    forgiven     bigint NOT NULL,
    selections   text, -- a JSON object; NULL if it is in force, or if there is none
    former       text -- a JSON object
);
CREATE INDEX rollouts_created ON rollouts (created);
CREATE INDEX rollouts_state ON rollouts (state, num);

-- The operations of a rollout, in the order in which each host carries out those of its steps.
CREATE TABLE rollout_steps (
    rollout   text COLLATE "C" NOT NULL,
    place     bigint NOT NULL,
    op        text NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    removes   bigint NOT NULL,
    spec      text, -- null: each host uses the spec that it has
    former    text, -- the spec that hosts had before; null: none
    PRIMARY KEY (rollout, place)
);
CREATE INDEX rollout_steps_process ON rollout_steps (namespace, name, rollout);

-- The task of a batch has the id of the rollout and the number of the batch, so that no batch has two tasks.
CREATE TABLE rollout_hosts (
    rollout   text COLLATE "C" NOT NULL,
    place     bigint NOT NULL,
    agent     text NOT NULL,
    name      text NOT NULL,
    steps     text NOT NULL, -- a JSON array of their places
    batch     bigint NOT NULL,
    state     text COLLATE "C" NOT NULL,
    begun     bigint NOT NULL,
    cause     text NOT NULL,
    text      text NOT NULL,
    PRIMARY KEY (rollout, place)
);
CREATE INDEX rollout_hosts_open ON rollout_hosts (state, rollout) WHERE state IN ('begun', 'baking');

-- Operations that the servers begin at the times of a timetable.
CREATE TABLE schedules (
    name      text COLLATE "C" PRIMARY KEY,
    app       text NOT NULL,
    "user"    text NOT NULL, -- each run has the rights of this person
    created   bigint NOT NULL, -- distinguishes the schedule from an earlier one of the same name
    cron      text NOT NULL,
    zone      text NOT NULL,
    message   text NOT NULL,
    request   text NOT NULL, -- a JSON object
    paused    bigint NOT NULL,
    looked    bigint NOT NULL, -- the time up to which the servers have decided about all runs
    missed    bigint NOT NULL DEFAULT 0,
    -- The host and the process of the alarm about the schedule; empty if there is none.
    failing_agent     text NOT NULL DEFAULT '',
    failing_namespace text NOT NULL DEFAULT '',
    failing_name      text NOT NULL DEFAULT ''
);

-- The latest runs of each schedule. A run is stored in the transaction of its task or rollout.
CREATE TABLE schedule_runs (
    schedule  text COLLATE "C" NOT NULL,
    due       bigint NOT NULL,
    state     text COLLATE "C" NOT NULL,
    text      text NOT NULL,
    task      text NOT NULL,
    rollout   text NOT NULL,
    count     bigint NOT NULL, -- the due times that the row stands for
    ended     bigint NOT NULL, -- 0 while it goes on
    "user"    text NOT NULL, -- who began it by hand
    PRIMARY KEY (schedule, due)
);
CREATE INDEX schedule_runs_open ON schedule_runs (schedule) WHERE state = 'running';

-- The exact processes that somebody has chosen and not operated on yet.
CREATE TABLE held_selections (
    num     bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id      text   COLLATE "C" NOT NULL UNIQUE,
    app     text   COLLATE "C" NOT NULL,
    "user"  text   COLLATE "C" NOT NULL,
    until   bigint NOT NULL,
    filter  text   NOT NULL, -- a JSON object
    targets text   NOT NULL  -- a JSON array
);
CREATE INDEX held_selections_until ON held_selections (until);
CREATE INDEX held_selections_owner ON held_selections (app, "user", num);
