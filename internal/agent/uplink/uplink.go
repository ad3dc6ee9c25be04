// Package uplink is the agent's link to its server: the connection, what the agent trusts, and how it stands with the
// server. It makes no reports and executes no orders: packages report and orders do.
package uplink
