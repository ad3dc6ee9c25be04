package agent

import "log/slog"

// linesOfFabric is how often each message about input from the fabric is logged within a loglimit.Window.
const linesOfFabric = 10

// limitFabric is the rule of the agent's log. It limits messages about input from the fabric: an attacker in transit
// can cause any number of them, and the log is on this host's disk.
func limitFabric(record slog.Record) (trouble string, lines int) {
	switch record.Message {
	case "rejected message", "rejected manifest", "rejected orders", "cannot renew trust",
		"cannot deliver report, retrying",
		"rejected a reply subject that is not an inbox of the caller", "cannot send reply", "fabric reported an error",
		"fabric dropped messages":
		return record.Message, linesOfFabric
	}
	return "", 0
}
