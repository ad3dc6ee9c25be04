-- The proxies that have joined, and what each token is for.
ALTER TABLE join_tokens ADD COLUMN role text NOT NULL DEFAULT 'agent';

CREATE TABLE proxies (
    key       text   COLLATE "C" PRIMARY KEY,
    area      bigint NOT NULL,
    name      text   COLLATE "C" NOT NULL UNIQUE,
    advertise text   NOT NULL,
    build     text   NOT NULL,
    token     text   NOT NULL,
    created   bigint NOT NULL
);
