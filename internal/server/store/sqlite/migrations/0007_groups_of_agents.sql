-- All groups of one agent are compared with what it has when it introduces itself, and go to whoever takes over its address.
CREATE INDEX groups_agent ON groups (agent);
CREATE INDEX agents_address ON agents (cloud, ip);
