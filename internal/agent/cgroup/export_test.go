package cgroup

import "context"

// KillByFreezing is Kill as it is where the kernel cannot kill a group.
func (g *Group) KillByFreezing(ctx context.Context) error { return g.kill(ctx, g.killFrozen) }
