package fleet

import (
	"context"
	"database/sql"
	"fmt"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// PutGroups replaces the groups of each of the hosts.
func (db *Fleet) PutGroups(ctx context.Context, hosts []store.GroupHost, groups []process.Group) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		for _, h := range hosts {
			if err := putGroups(ctx, tx, h, groups); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot store process groups: %w", err)
	}
	return nil
}

func putGroups(ctx context.Context, tx kit.Tx, h store.GroupHost, groups []process.Group) error {
	if err := tx.Exec(ctx, `DELETE FROM groups WHERE namespace = ? AND agent = ?`, h.Namespace, h.Agent); err != nil {
		return err
	}
	for place, g := range groups {
		err := tx.Exec(ctx,
			`INSERT INTO groups (namespace, agent, place, id, cpu_limit, mem_limit, cpu_weight, mem_weight)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, h.Namespace, h.Agent, place, g.ID, g.CPULimit, g.MemLimit, g.CPUWeight, g.MemWeight)
		if err != nil {
			return err
		}
	}
	return nil
}

// GetGroups calls fn for every group of the namespace on the given agents.
func (db *Fleet) GetGroups(ctx context.Context, namespace string, agents []string,
	fn func(string, process.Group) error,
) error {
	return db.Query(ctx, func(rows *sql.Rows) error {
		var agent string
		var g process.Group
		if err := rows.Scan(&agent, &g.ID, &g.CPULimit, &g.MemLimit, &g.CPUWeight, &g.MemWeight); err != nil {
			return fmt.Errorf("cannot read process groups: %w", err)
		}
		return fn(agent, g)
	}, `SELECT g.agent, g.id, g.cpu_limit, g.mem_limit, g.cpu_weight, g.mem_weight
		FROM texts(?) j CROSS JOIN groups g ON g.namespace = ? AND g.agent = j.value ORDER BY j.key, g.place`,
		db.Dialect.Texts(agents), namespace)
}

// AgentGroups returns the groups of one agent, by namespace.
func (db *Fleet) AgentGroups(ctx context.Context, agent string) (map[string][]process.Group, error) {
	groups := map[string][]process.Group{}
	err := db.Query(ctx, func(rows *sql.Rows) error {
		var namespace string
		var g process.Group
		err := rows.Scan(&namespace, &g.ID, &g.CPULimit, &g.MemLimit, &g.CPUWeight, &g.MemWeight)
		groups[namespace] = append(groups[namespace], g)
		return err
	},
		`SELECT namespace, id, cpu_limit, mem_limit, cpu_weight, mem_weight FROM groups WHERE agent = ?
			ORDER BY namespace, place`, agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read the process groups of agent %s: %w", agent, err)
	}
	return groups, nil
}

// GroupUsage returns the sum of the usage in the statuses of a namespace.
func (db *Fleet) GroupUsage(ctx context.Context, namespace string,
	agents []string,
) (map[string]store.GroupUsage, error) {
	usage := map[string]store.GroupUsage{}
	err := db.Query(ctx, func(rows *sql.Rows) error {
		var agent string
		var u store.GroupUsage
		err := rows.Scan(&agent, &u.CPU, &u.Mem, &u.Processes)
		usage[agent] = u
		return err
	},
		`SELECT o.agent, sum(CAST(o.status ->> '$.usage.cpu' AS DOUBLE PRECISION)),
			sum(CAST(o.status ->> '$.usage.mem' AS DOUBLE PRECISION)), count(*)
		FROM texts(?) j CROSS JOIN observed o ON o.namespace = ? AND o.agent = j.value
		WHERE o.status ->> '$.usage.at' IS NOT NULL GROUP BY o.agent`, db.Dialect.Texts(agents), namespace)
	if err != nil {
		return nil, fmt.Errorf("cannot read the usage of namespace %q: %w", namespace, err)
	}
	return usage, nil
}

// inheritGroups moves groups to an agent that has none. The source is the newest other agent at its address that has
// groups.
func inheritGroups(ctx context.Context, tx kit.Tx, a store.Agent) error {
	from, err := kit.All(ctx, tx.Query, kit.Column[string],
		`SELECT a.key FROM agents a WHERE a.cloud = ?1 AND a.ip = ?2 AND a.key <> ?3 AND EXISTS (SELECT 1 FROM groups
			WHERE agent = a.key)
		AND NOT EXISTS (SELECT 1 FROM groups WHERE agent = ?3) ORDER BY a.created DESC LIMIT 1`, a.Cloud, a.IP, a.Key)
	if err != nil || len(from) == 0 {
		return err
	}
	return tx.Exec(ctx, `UPDATE groups SET agent = ? WHERE agent = ?`, a.Key, from[0])
}
