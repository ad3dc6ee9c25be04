-- Lists of processes are in the order of namespace, name and agent.
CREATE INDEX observed_name ON observed (namespace, name, agent);
