-- What was removed, and of which area: a proxy's credential must not count again because an agent joins with its key. Of those that were
-- removed before, that is known only where no proxy can have been among them; no role is one that is not known.
ALTER TABLE removed_agents ADD COLUMN role TEXT    NOT NULL DEFAULT '';
ALTER TABLE removed_agents ADD COLUMN area INTEGER NOT NULL DEFAULT 0;
UPDATE removed_agents SET role = 'agent' WHERE NOT EXISTS (SELECT 1 FROM join_tokens WHERE role = 'proxy');
