package processes

import (
	"context"
	"slices"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/process"
)

// withRelated adds, on the hosts of the processes, what they are after, or what is after them: directly or over others.
func withRelated(ctx context.Context, c *client.Client, found []client.Process, dependents bool) (
	[]client.Process, error,
) {
	var hosts []string
	for _, p := range found {
		if !slices.Contains(hosts, p.Host.ID) {
			hosts = append(hosts, p.Host.ID)
		}
	}
	all, err := client.Collect(c.Processes(ctx, client.ProcessFilter{Hosts: hosts, Spec: true}))
	if err != nil {
		return nil, remote.ExitOf(err)
	}
	known := map[processRef]client.Process{}
	related := map[processRef][]processRef{}
	copies := map[processRef][]processRef{}
	for _, p := range all {
		self := processRef{p.Namespace, p.Name, p.Host.ID}
		known[self] = p
		copies[self.of()] = append(copies[self.of()], self)
	}
	for self, p := range known {
		if p.Spec == nil {
			continue
		}
		for name := range p.Spec.After {
			id := process.Peer(process.ID{Namespace: p.Namespace, Name: p.Name}, name)
			other := processRef{id.Namespace, id.Name, p.Host.ID}
			if dependents {
				related[other] = append(related[other], self)
			} else {
				related[self] = append(append(related[self], other), copies[other]...)
			}
		}
	}
	taken := map[processRef]bool{}
	for _, p := range found {
		taken[processRef{p.Namespace, p.Name, p.Host.ID}] = true
	}
	for i := 0; i < len(found); i++ {
		self := processRef{found[i].Namespace, found[i].Name, found[i].Host.ID}
		for _, other := range slices.Concat(related[self], related[self.of()]) {
			if p, ok := known[other]; ok && !taken[other] {
				taken[other], found = true, append(found, p)
			}
		}
	}
	sortProcesses(found)
	return found, nil
}
