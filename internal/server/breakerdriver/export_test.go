package breakerdriver

import "context"

// Seed reads the failures of the present window, as the beginning of Run does.
func (g *Driver) Seed(ctx context.Context) error { return g.seed(ctx) }
