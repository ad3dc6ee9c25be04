package archtest

import (
	"slices"
	"strings"
	"testing"
)

// TestServerAndAgentMeetOnTheFabricOnly: neither knows the other's code; what both know is listed here.
func TestServerAndAgentMeetOnTheFabricOnly(t *testing.T) {
	const agent, server = module + "internal/agent", module + "internal/server"
	for _, p := range ours(t) {
		for _, side := range [][2]string{{agent, server}, {server, agent}} {
			if !below(p.ImportPath, side[0]) {
				continue
			}
			for _, dep := range p.Deps {
				if below(dep, side[1]) {
					t.Errorf("%s reaches %s: server and agent meet only over the fabric", p.ImportPath, dep)
				}
			}
		}
	}
}

// TestAgentIsSmall: the agent runs on every host, so it has no database, no broker and no reader of texts in it.
func TestAgentIsSmall(t *testing.T) {
	for _, short := range []string{"cmd/drover-agent", "internal/agent"} {
		for _, dep := range find(t, short).Deps {
			if below(dep, "database/sql", "modernc.org", "github.com/nats-io/nats-server/v2", module+"internal/server",
				module+"internal/fabric/broker", "github.com/coreos/go-oidc", "golang.org/x/oauth2",
				"github.com/leonelquinteros/gotext") {
				t.Errorf("%s links %s", short, dep)
			}
		}
	}
	full := find(t, "cmd/drover").Deps
	for _, dep := range []string{
		"database/sql", "modernc.org/sqlite", module + "internal/fabric/broker", "golang.org/x/oauth2",
		"github.com/leonelquinteros/gotext",
	} {
		if !slices.Contains(full, dep) {
			t.Errorf("cmd/drover does not link %s: then this test proves nothing", dep)
		}
	}
}

// TestNoTestCodeInTheProduct: neither the binaries nor any package of the product knows package testing or a package
// for tests.
func TestNoTestCodeInTheProduct(t *testing.T) {
	for _, p := range ours(t) {
		if p.forTests() {
			continue
		}
		for _, imported := range p.Imports {
			if below(imported, "testing") || forTests(imported) {
				t.Errorf("%s imports %s, which is for tests", p.ImportPath, imported)
			}
		}
	}
	for _, short := range []string{"cmd/drover", "cmd/drover-agent"} {
		for _, dep := range find(t, short).Deps {
			if below(dep, "testing") || forTests(dep) {
				t.Errorf("%s links %s", short, dep)
			}
		}
	}
}

// pure are the packages that only compute: they decide, and others act.
func pure() []string {
	return []string{
		"internal/agent/instance", "internal/agent/lifecycle", "internal/agent/record", "internal/agent/story",
		"internal/agent/uplink/linkstate", "internal/gse", "internal/process", "internal/selector",
		"internal/server/breaker", "internal/server/desired", "internal/server/past", "internal/server/rollout",
		"internal/server/task", "internal/server/upkeep", "internal/spec", "internal/statemachine",
		"internal/why",
	}
}

// TestPurePackagesDoNoIO looks at what they and our packages below them import by themselves: fmt, for one, reaches os.
func TestPurePackagesDoNoIO(t *testing.T) {
	harmless := []string{
		"bytes", "cmp", "crypto/sha256", "embed", "encoding", "errors", "fmt", "iter", "maps", "math", "net/netip", "net/url",
		"path", "reflect", "regexp", "slices", "sort", "strconv",
		"strings", "sync", "time", "unicode", "github.com/netresearch/go-cron",
		// It imports os, and internal/words/gettext, its only user, calls nothing of it but the parser of a text.
		"github.com/leonelquinteros/gotext",
	}
	for _, short := range pure() {
		p := find(t, short)
		for _, dep := range append([]string{p.ImportPath}, p.Deps...) {
			if !strings.HasPrefix(dep, module) {
				continue
			}
			for _, imported := range find(t, strings.TrimPrefix(dep, module)).Imports {
				if strings.HasPrefix(imported, module) || below(imported, harmless...) && imported != "math/rand" &&
					imported != "math/rand/v2" {
					continue
				}
				t.Errorf("%s, which is to be pure, has %s through %s", short, imported, dep)
			}
		}
	}
}

// TestArchitectureNamesThePurePackages: the first rule of docs/architecture.md has the same list.
func TestArchitectureNamesThePurePackages(t *testing.T) {
	_, rule, _ := strings.Cut(content(t, "docs/architecture.md"), "The pure packages are ")
	rule, _, _ = strings.Cut(rule, ".\n")
	var named []string
	for i, part := range strings.Split(rule, "`") {
		if i%2 == 1 {
			named = append(named, "internal/"+part)
		}
	}
	if !slices.Equal(named, pure()) {
		t.Errorf("docs/architecture.md names %q, pure are %q", named, pure())
	}
}

// TestBrokerBelongsToServersAndProxies: all others speak to whatever broker they are given.
func TestBrokerBelongsToServersAndProxies(t *testing.T) {
	may := []string{
		"internal/proxy", "internal/server/agentlink", "internal/server/brokers", "internal/server/proxies",
		"internal/server/trust",
	}
	for _, p := range ours(t) {
		if slices.Contains(p.Imports, module+"internal/fabric/broker") && !slices.Contains(may, p.short()) && !p.forTests() {
			t.Errorf("%s imports internal/fabric/broker", p.ImportPath)
		}
	}
}

// TestOnePackageReadsGettext: all others get texts from it, so that another library changes one file.
func TestOnePackageReadsGettext(t *testing.T) {
	const library, reader = "github.com/leonelquinteros/gotext", "internal/words/gettext"
	for _, p := range ours(t) {
		if slices.Contains(p.Imports, library) != (p.short() == reader) {
			t.Errorf("%s: expected that %s and no other package imports %s", p.ImportPath, reader, library)
		}
	}
}

// mayImport lists which of our packages each package of the product may import.
func mayImport() map[string][]string {
	return map[string][]string{
		"api/v1":                {"internal/spec"},
		"client":                {"api/v1"},
		"internal/clip":         {},
		"internal/colour":       {},
		"internal/pattern":      {"internal/colour"},
		"internal/idle":         {},
		"internal/service":      {"internal/idle"},
		"internal/command":      {"internal/config", "internal/joining", "internal/process", "internal/service"},
		"internal/config":       {"internal/release", "internal/selector"},
		"internal/durable":      {},
		"internal/reserve":      {},
		"internal/fabric":       {"internal/durable", "internal/frame", "internal/idle"},
		"internal/group":        {},
		"internal/httpd":        {},
		"internal/pki":          {"internal/durable"},
		"internal/crontab":      {},
		"internal/wildcard":     {},
		"internal/selector":     {},
		"internal/spelling":     {},
		"internal/spec":         {},
		"internal/process":      {"api/v1", "internal/crontab", "internal/pattern", "internal/spec"},
		"internal/agent/budget": {},
		"internal/processfile": {
			"api/v1", "internal/crontab", "internal/pattern", "internal/process", "internal/selector",
			"internal/spec", "internal/spelling",
		},
		"internal/server/plan":     {"api/v1", "internal/process", "internal/processfile"},
		"internal/agent/timetable": {"internal/crontab", "internal/idle", "internal/process"},
		"internal/agent/lifecycle": {"internal/process", "internal/statemachine"},
		"internal/gse":             {"internal/clip", "internal/process", "internal/spec"},
		"internal/server/task":     {"internal/process", "internal/statemachine"},
		"internal/server/desired":  {"internal/process"},
		"internal/why":             {"internal/process", "internal/words"},
		"internal/frame":           {},
		"internal/wire":            {"internal/process"},
		"internal/fabric/broker":   {"internal/durable", "internal/fabric", "internal/idle"},
		"internal/joining":         {"internal/clip", "internal/idle", "internal/pki", "internal/wire"},
		"internal/proxy": {
			"internal/service",
			"internal/depot", "internal/durable", "internal/fabric", "internal/fabric/broker", "internal/frame",
			"internal/group", "internal/httpd", "internal/idle", "internal/joining", "internal/pki", "internal/wire",
		},
		"internal/release": {},
		"internal/agent/upgrade": {
			"internal/agent/instance", "internal/agent/procfs", "internal/agent/record", "internal/agent/specstore",
			"internal/durable", "internal/idle", "internal/process", "internal/release", "internal/reserve",
			"internal/wire",
		},
		"internal/depot": {"internal/idle", "internal/release", "internal/wire"},
		"internal/agent/notify": {
			"internal/agent/instance", "internal/agent/launch/gate", "internal/agent/pidfd", "internal/agent/procfs",
			"internal/idle",
		},
		"internal/agent/inotify": {},
		"internal/agent/logs": {
			"internal/agent/inotify", "internal/agent/trail", "internal/clip", "internal/idle", "internal/pattern",
			"internal/process", "internal/spec", "internal/wire",
		},
		"internal/agent/pidfd": {},
		"internal/agent/procfs": {
			"internal/agent/instance", "internal/process",
		},
		"internal/agent/cgroup":      {"internal/agent/pidfd", "internal/agent/procfs", "internal/idle"},
		"internal/agent/launch/gate": {},
		"internal/agent/launch": {
			"internal/agent/cgroup", "internal/agent/instance", "internal/agent/launch/gate", "internal/agent/pidfd",
			"internal/agent/procfs", "internal/agent/trail", "internal/clip", "internal/durable", "internal/process",
			"internal/spec",
		},
		"internal/agent/liveness": {
			"internal/agent/cgroup", "internal/agent/instance", "internal/agent/launch", "internal/agent/pidfd",
			"internal/agent/procfs", "internal/idle", "internal/process",
		},
		"internal/agent/limit": {
			"internal/agent/instance", "internal/agent/procfs", "internal/agent/usage", "internal/process",
			"internal/spec",
		},
		"internal/agent/usage": {"internal/process", "internal/wire"},
		"internal/agent/locate": {
			"internal/agent/instance", "internal/agent/launch", "internal/agent/launch/gate",
			"internal/agent/procfs", "internal/agent/trail", "internal/process",
		},
		"internal/agent/specstore": {
			"internal/agent/record", "internal/clip", "internal/durable", "internal/process", "internal/release",
			"internal/reserve",
		},
		"internal/agent/record": {
			"internal/agent/instance", "internal/process",
		},
		"internal/agent/probe": {
			"internal/agent/instance", "internal/agent/liveness", "internal/agent/ready", "internal/clip",
			"internal/idle", "internal/process", "internal/spec",
		},
		"internal/agent/configdrift": {
			"internal/agent/record", "internal/agent/trail", "internal/process", "internal/spec",
		},
		"internal/agent/ready": {
			"internal/agent/trail", "internal/pattern", "internal/process", "internal/spec",
		},
		"internal/agent/instance": {"internal/agent/procfs", "internal/process", "internal/spec"},
		"internal/agent/operation": {
			"internal/agent/instance", "internal/agent/liveness", "internal/agent/notify", "internal/agent/probe",
			"internal/agent/ready", "internal/agent/record", "internal/agent/specstore", "internal/agent/trail",
			"internal/clip", "internal/process", "internal/spec",
		},
		"internal/agent/story": {
			"internal/agent/instance", "internal/agent/lifecycle", "internal/agent/record", "internal/clip",
			"internal/process",
		},
		"internal/agent/supervisor": {
			"internal/agent/budget", "internal/agent/configdrift", "internal/agent/instance",
			"internal/agent/lifecycle", "internal/agent/limit", "internal/agent/liveness", "internal/agent/notify",
			"internal/agent/operation", "internal/agent/probe", "internal/agent/ready", "internal/agent/record",
			"internal/agent/specstore", "internal/agent/story", "internal/agent/timetable", "internal/process",
			"internal/spec",
		},
		"internal/agent/eventlog": {
			"internal/clip", "internal/durable", "internal/idle", "internal/process",
		},
		"internal/agent/facts": {
			"internal/agent/launch", "internal/agent/procfs", "internal/idle", "internal/selector", "internal/wire",
		},
		"internal/agent/metrics":          {"internal/idle", "internal/process"},
		"internal/agent/uplink/linkstate": {"internal/statemachine"},
		"internal/agent/uplink": {
			"internal/agent/uplink/linkstate", "internal/durable", "internal/fabric", "internal/frame", "internal/idle",
			"internal/pki", "internal/reserve", "internal/wire",
		},
		"internal/agent/report": {
			"internal/agent/uplink", "internal/agent/uplink/linkstate", "internal/idle", "internal/process", "internal/wire",
		},
		"internal/agent/orders": {
			"internal/agent/metrics", "internal/agent/record", "internal/agent/specstore", "internal/clip",
			"internal/process", "internal/wire",
		},
		"internal/server/access":  {"internal/process", "internal/selector", "internal/spelling", "internal/wildcard"},
		"internal/server/rollout": {"api/v1", "internal/process"},
		"internal/server/rolloutdriver": {
			"api/v1", "internal/idle", "internal/process", "internal/server/access", "internal/server/fleet", "internal/server/gate",
			"internal/server/plan", "internal/server/rollout", "internal/server/store", "internal/server/task",
		},
		"internal/server/schedule": {
			"internal/clip", "internal/crontab", "internal/idle", "internal/process", "internal/server/access",
			"internal/server/fleet", "internal/server/gate", "internal/server/rollout", "internal/server/store", "internal/server/task",
		},
		"internal/server/drift": {
			"api/v1", "internal/process", "internal/processfile", "internal/server/plan", "internal/server/store",
		},
		"internal/server/upkeepdriver": {
			"api/v1", "internal/idle", "internal/process", "internal/selector", "internal/server/access",
			"internal/server/fleet", "internal/server/gate", "internal/server/plan", "internal/server/rollout",
			"internal/server/store", "internal/server/task", "internal/server/upkeep", "internal/wire",
		},
		"internal/server/store": {
			"api/v1", "internal/crontab", "internal/process", "internal/selector", "internal/server/access",
			"internal/server/past",
			"internal/server/rollout", "internal/server/task", "internal/server/upkeep", "internal/wildcard",
		},
		"internal/server/upkeep":  {"internal/process"},
		"internal/server/gate":    {"internal/server/access", "internal/server/store"},
		"internal/server/breaker": {"internal/process"},
		"internal/server/past":    {"internal/process"},
		"internal/server/breakerdriver": {
			"internal/idle", "internal/process", "internal/server/breaker", "internal/server/fleet", "internal/server/store",
			"internal/wire",
		},
		"internal/server/alarm": {"internal/process", "internal/why"},
		"internal/server/receiver": {
			"internal/clip", "internal/crontab", "internal/idle", "internal/process", "internal/selector",
			"internal/server/alarm", "internal/server/keyring", "internal/server/store", "internal/wildcard",
		},
		"internal/server/metrics": {
			"internal/gse", "internal/pki", "internal/process", "internal/server/store",
			"internal/server/task",
		},
		"internal/server/audit":    {"internal/clip", "internal/server/store"},
		"internal/server/login":    {"internal/server/gate"},
		"internal/server/provider": {"internal/server/access"},
		"internal/server/peers":    {"internal/fabric", "internal/frame", "internal/idle", "internal/server/fleet"},
		"internal/server/dbclock":  {},
		"internal/server/lease":    {"internal/idle"},
		"internal/serverkeys":      {"internal/durable"},
		"internal/server/fleet": {
			"internal/frame", "internal/idle", "internal/process", "internal/selector", "internal/server/store",
		},
		"internal/server/incarnation": {"internal/durable", "internal/server/store"},
		"internal/server/engine": {
			"internal/clip", "internal/frame", "internal/idle", "internal/process", "internal/selector",
			"internal/server/batch", "internal/server/bus", "internal/server/desired", "internal/server/fleet",
			"internal/server/plan", "internal/server/store", "internal/server/task", "internal/wire",
		},
		"internal/server/store/sqlite": {
			"internal/durable", "internal/reserve", "internal/server/store/sqldb", "internal/server/store/sqlstore",
			"internal/server/store/sqlstore/kit",
		},
		"internal/server/store/postgres": {
			"internal/server/store", "internal/server/store/sqldb", "internal/server/store/sqlstore",
			"internal/server/store/sqlstore/kit",
		},
		"internal/server/store/sqldb":      {"internal/process"},
		"internal/server/store/statusjson": {"internal/process"},
		"internal/server/batch":            {"internal/idle"},
		"internal/server/store/sqlstore": {
			"internal/server/store", "internal/server/store/sqldb", "internal/server/store/sqlstore/alarms",
			"internal/server/store/sqlstore/events", "internal/server/store/sqlstore/fleet",
			"internal/server/store/sqlstore/kit", "internal/server/store/sqlstore/observed",
			"internal/server/store/sqlstore/people", "internal/server/store/sqlstore/tasks",
		},
		"internal/server/store/sqlstore/alarms": {
			"internal/process", "internal/server/store", "internal/server/store/sqlstore/kit",
		},
		"internal/server/store/sqlstore/events": {
			"internal/process", "internal/server/batch", "internal/server/past", "internal/server/store",
			"internal/server/store/sqldb", "internal/server/store/sqlstore/kit",
			"internal/server/store/sqlstore/observed", "internal/wildcard",
		},
		"internal/server/store/sqlstore/fleet": {
			"internal/process", "internal/server/store", "internal/server/store/sqlstore/events",
			"internal/server/store/sqlstore/kit",
		},
		"internal/server/store/sqlstore/kit": {
			"internal/process", "internal/server/store", "internal/server/store/sqldb", "internal/wildcard",
		},
		"internal/server/store/sqlstore/observed": {
			"internal/process", "internal/server/batch", "internal/server/store",
			"internal/server/store/sqlstore/kit", "internal/server/store/statusjson",
		},
		"internal/server/store/sqlstore/people": {
			"internal/server/store", "internal/server/store/sqlstore/kit",
		},
		"internal/server/store/sqlstore/tasks": {
			"internal/process", "internal/server/batch", "internal/server/rollout", "internal/server/store",
			"internal/server/store/sqldb", "internal/server/store/sqlstore/events",
			"internal/server/store/sqlstore/fleet", "internal/server/store/sqlstore/kit",
			"internal/server/store/sqlstore/observed", "internal/server/store/sqlstore/people",
			"internal/server/store/statusjson", "internal/server/task", "internal/spec",
		},
		"docs/why":    {},
		"docs/zh/why": {},
		"internal/agent": {
			"internal/agent/cgroup", "internal/agent/eventlog", "internal/agent/facts", "internal/agent/host",
			"internal/agent/instance", "internal/agent/launch", "internal/agent/lifecycle",
			"internal/agent/limit", "internal/agent/liveness", "internal/agent/logs", "internal/agent/metrics",
			"internal/agent/operation", "internal/agent/orders", "internal/agent/policy",
			"internal/agent/probe", "internal/agent/procfs", "internal/agent/record", "internal/agent/report",
			"internal/agent/specstore", "internal/agent/supervisor", "internal/agent/timetable",
			"internal/agent/trail", "internal/agent/upgrade", "internal/agent/uplink",
			"internal/agent/uplink/linkstate", "internal/agent/usage", "internal/clip", "internal/config",
			"internal/durable", "internal/fabric", "internal/frame", "internal/group", "internal/loglimit",
			"internal/process", "internal/release", "internal/selector", "internal/service", "internal/wire",
		},
		"internal/agent/admission": {
			"internal/agent", "internal/agent/uplink", "internal/joining", "internal/pki", "internal/wire",
		},
		"internal/agent/host": {
			"internal/agent/cgroup", "internal/agent/inotify", "internal/agent/instance", "internal/agent/launch",
			"internal/agent/liveness", "internal/agent/locate", "internal/agent/logs", "internal/agent/notify",
			"internal/agent/probe", "internal/agent/procfs", "internal/agent/record", "internal/agent/trail",
			"internal/clip", "internal/durable", "internal/group", "internal/process", "internal/spec",
		},
		"internal/agent/policy": {"internal/agent/trail", "internal/process", "internal/wildcard"},
		"internal/agent/trail":  {},
		"internal/agentcli": {
			"internal/service",
			"internal/agent/upgrade", "internal/agent/procfs",
			"internal/agent", "internal/agent/admission", "internal/agent/policy", "internal/command",
			"internal/config", "internal/wire",
		},
		"internal/importer":        {"api/v1", "internal/process", "internal/processfile", "internal/spec"},
		"internal/importer/onhost": {"internal/importer"},
		"internal/cli": {
			"internal/cli/accounts", "internal/cli/events", "internal/cli/files", "internal/cli/fleet",
			"internal/cli/inspect", "internal/cli/list", "internal/cli/logs", "internal/cli/operations",
			"internal/cli/receivers", "internal/cli/servers", "internal/cli/term", "internal/cli/ui",
			"internal/cli/why", "internal/command",
		},
		"internal/cli/inspect": {
			"api/v1", "client", "internal/agent/logs", "internal/cli/remote", "internal/cli/term", "internal/command",
			"internal/config", "internal/words",
		},
		"internal/cli/accounts": {
			"api/v1", "client", "internal/cli/remote", "internal/cli/term", "internal/command", "internal/config",
			"internal/server/access", "internal/words",
		},
		"internal/cli/fleet": {
			"internal/release",
			"api/v1", "client", "internal/cli/remote", "internal/cli/term", "internal/command", "internal/idle", "internal/process",
			"internal/selector",
		},
		"internal/cli/events": {
			"api/v1", "client", "internal/cli/remote", "internal/cli/selection", "internal/cli/term",
			"internal/command", "internal/process", "internal/why", "internal/wildcard", "internal/words",
		},
		"internal/cli/files": {
			"api/v1", "client", "internal/cli/events", "internal/cli/operations", "internal/cli/remote",
			"internal/cli/selection", "internal/cli/term", "internal/command", "internal/config",
			"internal/importer", "internal/importer/onhost", "internal/process", "internal/processfile",
			"internal/spelling", "internal/wildcard", "internal/words",
		},
		"internal/cli/list": {
			"api/v1", "client", "internal/cli/events", "internal/cli/remote", "internal/cli/selection", "internal/cli/term",
			"internal/command", "internal/process", "internal/why", "internal/words",
		},
		"internal/cli/logs": {
			"api/v1", "client", "internal/cli/list", "internal/cli/remote", "internal/cli/selection", "internal/cli/term",
			"internal/cli/why", "internal/command", "internal/pattern", "internal/process",
		},
		"internal/cli/operations": {
			"api/v1", "client", "internal/cli/events", "internal/cli/remote", "internal/cli/selection", "internal/cli/term",
			"internal/clip", "internal/command", "internal/process", "internal/processfile", "internal/why",
			"internal/words",
		},
		"internal/cli/selection": {
			"api/v1", "client", "internal/cli/remote", "internal/cli/term", "internal/command", "internal/process",
			"internal/wildcard",
		},
		"internal/cli/why": {
			"api/v1", "client", "docs/why", "docs/zh/why", "internal/cli/events", "internal/cli/list", "internal/cli/remote",
			"internal/cli/selection", "internal/cli/term", "internal/command", "internal/process",
			"internal/spelling", "internal/wildcard", "internal/words",
		},
		"internal/cli/remote": {
			"api/v1", "client", "internal/cli/term", "internal/command", "internal/config", "internal/durable",
			"internal/process", "internal/selector", "internal/server/api", "internal/spelling", "internal/wildcard",
			"internal/words",
		},
		"internal/cli/servers": {
			"internal/service",
			"client", "internal/cli/term", "internal/command", "internal/config", "internal/config/proxyconfig",
			"internal/config/serverconfig", "internal/config/settings", "internal/dev", "internal/process",
			"internal/proxy", "internal/serve", "internal/server/store/storeopen", "internal/serverkeys",
		},
		"internal/cli/term": {
			"api/v1", "internal/command", "internal/config", "internal/process", "internal/spec", "internal/why",
			"internal/words", "internal/words/help",
		},
		"internal/cli/receivers": {"api/v1", "client", "internal/cli/remote", "internal/cli/term", "internal/command"},
		"internal/cli/ui": {
			"api/v1", "client", "internal/cli/remote", "internal/cli/term", "internal/config", "internal/joining", "internal/process",
			"internal/processfile", "internal/server/access", "internal/why", "internal/words",
		},
		"internal/config/proxyconfig": {"internal/config", "internal/config/settings"},
		"internal/config/serverconfig": {
			"internal/config", "internal/config/settings", "internal/selector", "internal/server/access",
		},
		"internal/config/settings": {},
		"internal/dev": {
			"internal/service",
			"internal/agent", "internal/agent/uplink", "internal/config", "internal/group", "internal/server",
		},
		"internal/serve": {
			"internal/service",
			"internal/config", "internal/config/serverconfig", "internal/group", "internal/server",
			"internal/server/breaker", "internal/server/provider", "internal/server/webui",
		},
		"internal/server": {
			"api/v1", "internal/depot", "internal/fabric", "internal/group", "internal/httpd", "internal/idle",
			"internal/loglimit", "internal/pki", "internal/reserve", "internal/server/access",
			"internal/server/admission", "internal/server/agentlink", "internal/server/api",
			"internal/server/api/accounts", "internal/server/api/alarms", "internal/server/api/call",
			"internal/server/api/install", "internal/server/audit", "internal/server/breaker",
			"internal/server/brokers", "internal/server/bus", "internal/server/upkeepdriver",
			"internal/server/certificates", "internal/server/cluster", "internal/server/dbclock",
			"internal/server/rolloutdriver", "internal/server/edge", "internal/server/engine", "internal/server/enrol",
			"internal/server/fleet", "internal/server/gate", "internal/server/httpapi",
			"internal/server/incarnation", "internal/server/keyring", "internal/server/login",
			"internal/server/memory", "internal/server/metrics", "internal/server/pairs",
			"internal/server/breakerdriver", "internal/server/provider", "internal/server/proxies",
			"internal/server/receiver", "internal/server/repeats", "internal/server/reports",
			"internal/server/rollup", "internal/server/schedule", "internal/server/socket",
			"internal/server/startup", "internal/server/store", "internal/server/store/storeopen",
			"internal/server/trust", "internal/server/webui", "internal/service", "internal/wire",
		},
		"internal/words":    {"internal/words/gettext"},
		"internal/loglimit": {},
		"internal/server/agentlink": {
			"internal/fabric", "internal/fabric/broker", "internal/frame", "internal/server/engine",
			"internal/server/fleet", "internal/server/pairs", "internal/server/store", "internal/wire",
		},
		"internal/server/brokers": {
			"internal/config/settings", "internal/durable", "internal/fabric", "internal/fabric/broker",
			"internal/pki", "internal/server/certificates", "internal/server/keyring", "internal/wire",
		},
		"internal/server/bus":          {"internal/idle"},
		"internal/server/certificates": {"internal/group", "internal/pki"},
		"internal/server/cluster": {
			"internal/fabric", "internal/frame", "internal/group", "internal/idle", "internal/server/bus",
			"internal/server/dbclock", "internal/server/engine", "internal/server/fleet",
			"internal/server/lease", "internal/server/membership", "internal/server/peers",
			"internal/server/store",
		},
		"internal/server/memory": {},
		"internal/server/proxies": {
			"internal/depot", "internal/fabric", "internal/fabric/broker", "internal/frame", "internal/idle",
			"internal/pki", "internal/server/api/hosts", "internal/server/api/install",
			"internal/server/audit", "internal/server/enrol", "internal/server/keyring",
			"internal/server/pairs", "internal/server/reports", "internal/server/store", "internal/wire",
		},
		"internal/server/repeats": {"internal/loglimit", "internal/server/store"},
		"internal/server/reports": {
			"internal/frame", "internal/server/fleet", "internal/server/pairs", "internal/server/repeats",
			"internal/wire",
		},
		"internal/server/socket": {"internal/idle"},
		"internal/server/startup": {
			"internal/server/httpapi", "internal/server/store", "internal/server/store/sqlstore/kit",
			"internal/server/store/storeopen",
		},
		"internal/server/trust": {
			"internal/fabric/broker", "internal/server/fleet", "internal/server/keyring",
			"internal/server/store", "internal/wire",
		},
		"internal/words/gettext": {},
		"internal/words/help":    {"internal/words", "internal/words/gettext"},
		"internal/server/rollup": {
			"api/v1", "internal/process", "internal/processfile", "internal/selector", "internal/server/fleet",
			"internal/server/store", "internal/why", "internal/words", "internal/wildcard",
		},
		"internal/server/webui": {
			"api/v1", "client", "docs/why", "docs/zh/why", "internal/joining", "internal/process",
			"internal/processfile", "internal/selector", "internal/server/access", "internal/server/api/accounts",
			"internal/server/api/call", "internal/server/audit", "internal/server/bus", "internal/server/edge",
			"internal/server/gate", "internal/server/provider", "internal/server/store", "internal/spec",
			"internal/words",
		},
		"internal/server/admission": {},
		"internal/server/api": {
			"api/v1", "internal/server/api/accounts", "internal/server/api/alarms", "internal/server/api/call",
			"internal/server/api/changes", "internal/server/api/events", "internal/server/api/files",
			"internal/server/api/hosts", "internal/server/api/install", "internal/server/api/operations",
			"internal/server/api/processes", "internal/server/bus", "internal/server/edge",
			"internal/server/store",
		},
		"internal/server/api/accounts": {
			"api/v1", "internal/server/access", "internal/server/api/call", "internal/server/api/hosts",
			"internal/server/edge", "internal/server/gate", "internal/server/store", "internal/words",
		},
		"internal/server/api/alarms": {
			"api/v1", "internal/crontab", "internal/process", "internal/selector", "internal/server/access",
			"internal/server/alarm", "internal/server/api/call", "internal/server/bus", "internal/server/edge",
			"internal/server/receiver", "internal/server/store", "internal/why", "internal/wildcard",
		},
		"internal/server/api/call": {
			"api/v1", "internal/crontab", "internal/process", "internal/processfile", "internal/selector",
			"internal/server/access", "internal/server/admission", "internal/server/edge", "internal/server/gate",
			"internal/server/store", "internal/wildcard",
		},
		"internal/server/api/changes": {
			"api/v1", "internal/process", "internal/server/access", "internal/server/api/call",
			"internal/server/api/events", "internal/server/api/files", "internal/server/api/hosts",
			"internal/server/api/operations", "internal/server/api/processes", "internal/server/edge",
			"internal/server/fleet", "internal/server/gate", "internal/server/past", "internal/server/rollout",
			"internal/server/store", "internal/wildcard",
		},
		"internal/server/api/events": {
			"api/v1", "internal/process", "internal/server/access", "internal/server/api/call",
			"internal/server/api/hosts", "internal/server/bus", "internal/server/edge", "internal/server/gate",
			"internal/server/store", "internal/wildcard",
		},
		"internal/server/api/files": {
			"api/v1", "internal/process", "internal/processfile", "internal/selector", "internal/server/access",
			"internal/server/api/call", "internal/server/api/events", "internal/server/api/hosts",
			"internal/server/api/operations", "internal/server/api/processes", "internal/server/drift",
			"internal/server/edge", "internal/server/fleet", "internal/server/gate", "internal/server/plan",
			"internal/server/rollout", "internal/server/store", "internal/server/upkeep", "internal/spelling",
			"internal/wildcard", "internal/wire",
		},
		"internal/server/api/hosts": {
			"api/v1", "internal/process", "internal/processfile", "internal/selector", "internal/server/access",
			"internal/server/api/call", "internal/server/edge", "internal/server/fleet", "internal/server/gate",
			"internal/server/store", "internal/why", "internal/wildcard",
		},
		"internal/server/api/install": {
			"api/v1", "internal/process", "internal/processfile", "internal/release", "internal/selector",
			"internal/server/access", "internal/server/api/call", "internal/server/api/hosts",
			"internal/server/api/operations", "internal/server/edge", "internal/server/enrol",
			"internal/server/keyring", "internal/server/plan", "internal/server/rollout", "internal/server/store",
			"internal/spec",
		},
		"internal/server/api/operations": {
			"api/v1", "internal/crontab", "internal/process", "internal/processfile", "internal/selector",
			"internal/server/access", "internal/server/api/call", "internal/server/api/events",
			"internal/server/api/hosts", "internal/server/api/processes", "internal/server/bus",
			"internal/server/edge", "internal/server/fleet", "internal/server/gate", "internal/server/plan",
			"internal/server/rollout", "internal/server/rollup", "internal/server/store", "internal/server/task",
			"internal/spec", "internal/wildcard",
		},
		"internal/server/api/processes": {
			"api/v1", "internal/pattern", "internal/process", "internal/processfile", "internal/selector",
			"internal/server/access", "internal/server/api/call", "internal/server/api/events",
			"internal/server/api/hosts", "internal/server/edge", "internal/server/fleet", "internal/server/gate",
			"internal/server/past", "internal/server/plan", "internal/server/rollup", "internal/server/store",
			"internal/server/task", "internal/why", "internal/wildcard", "internal/wire", "internal/words",
		},
		"internal/server/edge": {
			"internal/process", "internal/server/access", "internal/server/admission", "internal/server/audit",
			"internal/server/gate", "internal/server/store",
		},
		"internal/server/enrol": {
			"internal/config/settings", "internal/process", "internal/server/access", "internal/server/alarm",
			"internal/server/audit", "internal/server/fleet", "internal/server/gate", "internal/server/store",
			"internal/wire",
		},
		"internal/server/httpapi": {
			"api/v1", "internal/gse", "internal/process", "internal/server/access", "internal/server/admission",
			"internal/server/audit", "internal/server/edge", "internal/server/fleet", "internal/server/gate", "internal/server/store",
			"internal/server/task",
		},
		"internal/server/keyring":    {"internal/durable", "internal/fabric", "internal/idle", "internal/pki"},
		"internal/server/membership": {"internal/server/store"},
		"internal/server/pairs":      {"internal/frame", "internal/wire"},
		"internal/server/store/storeopen": {
			"internal/server/store", "internal/server/store/postgres", "internal/server/store/sqldb",
			"internal/server/store/sqlite", "internal/server/store/sqlstore/kit",
		},
		"internal/statemachine": {},
		"internal/statesdoc": {
			"internal/agent/lifecycle", "internal/agent/uplink/linkstate", "internal/server/task", "internal/statemachine",
		},
		"internal/house":             {},
		"internal/zhdocs":            {},
		"internal/agent/pidns":       {},
		"internal/fabric/fabrictest": {"internal/fabric"},
		"internal/server/store/storetest": {
			"api/v1", "internal/process", "internal/server/access", "internal/server/past",
			"internal/server/rollout", "internal/server/store", "internal/server/task", "internal/server/upkeep",
			"internal/spec",
		},
	}
}

// TestImportsFollowTheTable: every package of the product has a row, so that a new dependency is a decision.
func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range ours(t) {
		if _, listed := mayImport()[p.short()]; !listed && p.Name != "main" && len(p.GoFiles) > 0 && !p.forTests() {
			t.Errorf("%s has no row in the table: add one with the packages that it may import", p.short())
		}
	}
	for short, allowed := range mayImport() {
		for _, imported := range find(t, short).Imports {
			if ours, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s: allowed are %q", short, ours, allowed)
			}
		}
	}
}

// TestDriversStayBehindTheirSeams: a library that another could replace is known to the packages that wrap it, and to
// no other.
func TestDriversStayBehindTheirSeams(t *testing.T) {
	for library, homes := range map[string][]string{
		"database/sql":     {"internal/server/store"},
		"modernc.org":      {"internal/server/store"},
		"github.com/jackc": {"internal/server/store/postgres", "internal/test/pgtest", "test/failover"},
		// drover is measured beside bare NATS
		"github.com/nats-io/nats-server/v2": {"internal/fabric", "test/scale", "test/bench", "test/hostile"},
		"github.com/nats-io/nats.go":        {"internal/fabric", "test/scale", "test/bench", "test/hostile"},
		"github.com/nats-io/jwt/v2":         {"internal/fabric"},
		"go.etcd.io/bbolt":                  {"internal/agent/specstore"},
		"github.com/netresearch/go-cron":    {"internal/crontab"},
		"github.com/spf13/cobra":            {"internal/cli", "internal/agentcli", "internal/command", "internal/manpages"},
		"github.com/prometheus":             {"internal/server/metrics"},
		"charm.land":                        {"internal/cli/ui"},
		"github.com/charmbracelet":          {"internal/cli/term", "internal/cli/ui"},
		"github.com/coreos/go-oidc":         {"internal/server/provider"},
		"golang.org/x/oauth2":               {"internal/server/provider"},
	} {
		used := false
		for _, p := range ours(t) {
			for _, imported := range p.Imports {
				if !below(imported, library) {
					continue
				}
				used = true
				if !below(p.short(), homes...) {
					t.Errorf("%s imports %s: only %q may", p.ImportPath, imported, homes)
				}
			}
		}
		if !used {
			t.Errorf("nobody imports %s: the rule about it is old", library)
		}
	}
}
