package serverconfig_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/config"
	"drover/internal/config/serverconfig"
)

func valid(t *testing.T) serverconfig.Config {
	t.Helper()
	c := serverconfig.Default()
	c.DataDir, c.Fabric = t.TempDir(), "192.0.2.1:7351"
	return c
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadFile(t *testing.T) {
	c := serverconfig.Default()
	if err := c.ReadFile(write(t,
		"data-dir: /d\nhttp: 192.0.2.1:1\nfabric: '[::]:2'\nnats: [tls://n:1]\ncluster: c:1\nroute: ['r:1']\nadvertise: [a:1, 'b:2']\ninsecure-http: true\ntls-cert: c\ntls-key: k\n"+
			"trusted-gateway: [10.0.0.0/8]\nlogin-url: https://l\nlog-level: debug\ndatabase: postgres://u@h/d\napproval-above: 100\n")); err != nil {
		t.Fatal(err)
	}
	want := serverconfig.Config{
		DataDir: "/d", HTTP: "192.0.2.1:1", Fabric: "[::]:2", NATS: []string{"tls://n:1"}, Cluster: "c:1",
		Routes: []string{"r:1"}, Advertise: []string{"a:1", "b:2"},
		TLS:            serverconfig.TLS{InsecureHTTP: true, TLSCert: "c", TLSKey: "k"},
		TrustedGateway: []string{"10.0.0.0/8"}, LoginURL: "https://l", LogLevel: "debug", Database: "postgres://u@h/d",
		ApprovalAbove: "100",
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"htpp: x":           "htpp",
		"http: [1, 2]":      "http",
		"advertise: {a: b}": "advertise",
		"http: 'x":          "cannot read configuration",
	} {
		c := serverconfig.Default()
		if err := c.ReadFile(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error about %s", text, err, want)
		}
	}
	c = serverconfig.Default()
	err := c.ReadFile(write(t, "bogus: 1\nhttp: a:1\nnats: {a: b}\ncluster: c:1\nother: 2\n"))
	for _, want := range []string{`:1: unknown field "bogus"`, ":3: nats: mapping", `:5: unknown field "other"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of all faults it says %v, want %s", err, want)
		}
	}
	if c.HTTP != "a:1" || c.Cluster != "c:1" {
		t.Errorf("beside wrong entries it has read %+v", c)
	}
	c = serverconfig.Default()
	if err := c.ReadFile(write(t, "# nothing yet\n")); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	if err := c.ReadFile("/none"); err == nil {
		t.Error("a file that is not there")
	}
}

// TestEverySettingHasAKey: the names of flags, variables and keys are the same.
func TestEverySettingHasAKey(t *testing.T) {
	var c serverconfig.Config
	for _, s := range c.Settings() {
		value := map[bool]string{true: "true", false: "x"}[s.Bool != nil]
		if s.List != nil {
			value = "[x]"
		}
		var fresh serverconfig.Config
		if err := fresh.ReadFile(write(t, s.Name+": "+value)); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if cmp.Equal(fresh, serverconfig.Config{}) {
			t.Errorf("%s changes nothing", s.Name)
		}
	}
}

func TestReadEnvironment(t *testing.T) {
	t.Setenv("DROVER_HTTP", "h:1")
	t.Setenv("DROVER_ADVERTISE", "a:1,b:2, c:3")
	t.Setenv("DROVER_INSECURE_HTTP", "true")
	t.Setenv("DROVER_BOOTSTRAP_APP_CODE", "code")
	c := serverconfig.Default()
	c.Advertise = []string{"old:1"}
	if err := c.ReadEnvironment(); err != nil {
		t.Fatal(err)
	}
	want := serverconfig.Default()
	want.HTTP, want.Advertise, want.InsecureHTTP, want.Bootstrap = "h:1", []string{"a:1", "b:2", "c:3"}, true,
		config.Bootstrap{AppCode: "code"}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	t.Setenv("DROVER_INSECURE_HTTP", "perhaps")
	if err := c.ReadEnvironment(); err == nil || !strings.Contains(err.Error(), `DROVER_INSECURE_HTTP="perhaps"`) {
		t.Errorf("error is %v", err)
	}
}

func TestValidate(t *testing.T) {
	file := write(t, "x")
	for _, c := range []struct {
		name string
		set  func(*serverconfig.Config)
		want string
	}{
		{"one address", func(*serverconfig.Config) {}, ""},
		{"every address, and a name", func(c *serverconfig.Config) {
			c.Fabric, c.Advertise = "0.0.0.0:7351",
				[]string{"drover.example:7351"}
		}, ""},
		{"any port", func(c *serverconfig.Config) { c.HTTP, c.Fabric = "127.0.0.1:0", "127.0.0.1:0" }, ""},
		{"certificates", func(c *serverconfig.Config) { c.TLSCert, c.TLSKey = file, file }, ""},

		{"a file of its own", func(c *serverconfig.Config) { c.Database = "/srv/drover.db" }, ""},
		{"several hosts", func(c *serverconfig.Config) {
			c.Database = "postgres://u:p@a:5432,b:5432/d?target_session_attrs=read-write"
		}, ""},
		{"approvals", func(c *serverconfig.Config) { c.ApprovalAbove = "100" }, ""},
		{
			"breakers", func(c *serverconfig.Config) {
				c.Breakers = serverconfig.Breakers{Share: "20%", Hosts: "10", Window: "2m", Hold: "10m"}
			}, "",
		},
		{
			"share of breakers", func(c *serverconfig.Config) { c.Breakers.Share = "0.3" },
			`breaker-share "0.3": expected a percentage from 1% to 100%, such as 30%`,
		},
		{
			"hosts of breakers", func(c *serverconfig.Config) { c.Breakers.Hosts = "0" },
			`breaker-hosts "0": expected a number of hosts, from 1`,
		},
		{
			"window of breakers", func(c *serverconfig.Config) { c.Breakers.Window = "60" },
			`breaker-window "60": expected a time from 1s to 1h0m0s, such as 60s`,
		},
		{
			"hold of breakers", func(c *serverconfig.Config) { c.Breakers.Hold = "2h" },
			`breaker-hold "2h": expected a time from 1s to 1h0m0s, such as 60s`,
		},
		{
			"approvals of no host", func(c *serverconfig.Config) { c.ApprovalAbove = "0" },
			`approval-above "0": expected a number of hosts, from 1`,
		},
		{"a socket", func(c *serverconfig.Config) { c.Database = "postgres:///d?host=/run/postgresql" }, ""},

		{"brokers of others", func(c *serverconfig.Config) {
			c.Fabric, c.NATS = "0.0.0.0:7351", []string{"tls://a:4222", "tls://[2001:db8::1]:4222"}
		}, ""},
		{
			"brokers together", func(c *serverconfig.Config) { c.Cluster, c.Routes = "0.0.0.0:7353", []string{"b:7353"} },
			"",
		},

		{
			"a broker without TLS", func(c *serverconfig.Config) { c.NATS = []string{"nats://a:4222"} },
			`nats "nats://a:4222": expected tls://HOST:PORT`,
		},
		{
			"a broker without a port", func(c *serverconfig.Config) { c.NATS = []string{"tls://a"} },
			"expected tls://HOST:PORT",
		},
		{
			"a broker with a password", func(c *serverconfig.Config) { c.NATS = []string{"tls://u:p@a:4222"} },
			"expected tls://HOST:PORT",
		},
		{"both kinds of brokers", func(c *serverconfig.Config) {
			c.NATS, c.Cluster = []string{"tls://a:4222"},
				"0.0.0.0:7353"
		}, "exclude each other"},
		{"routes alone", func(c *serverconfig.Config) { c.Routes = []string{"b:7353"} }, "route: expected cluster"},
		{"a route to everywhere", func(c *serverconfig.Config) {
			c.Cluster, c.Routes = "0.0.0.0:7353",
				[]string{":7353"}
		}, `route ":7353"`},
		{"a cluster nowhere", func(c *serverconfig.Config) { c.Cluster = "here" }, `cluster "here"`},
		{
			"another database", func(c *serverconfig.Config) { c.Database = "mysql://u:secret@h/d" },
			"database: expected",
		},
		{
			"a server without a database", func(c *serverconfig.Config) { c.Database = "postgres://u:secret@h" },
			"database: expected",
		},
		{
			"a password to be escaped", func(c *serverconfig.Config) { c.Database = "postgres://u:sec%ret@h/d" },
			"not shown",
		},
		{"proxies", func(c *serverconfig.Config) { c.Listen = "192.0.2.1:7352" }, ""},
		{"proxies at every address", func(c *serverconfig.Config) { c.Listen = ":7352" }, "say with advertise-proxies"},
		{"proxies at every address, and a name", func(c *serverconfig.Config) {
			c.Listen, c.AdvertiseProxies = ":7352",
				[]string{"x:7352"}
		}, ""},
		{"proxies beside brokers of others", func(c *serverconfig.Config) {
			c.Listen, c.NATS = "192.0.2.1:7352",
				[]string{"tls://x:1"}
		}, "exclude each other"},
		{"nobody's address advertised to proxies", func(c *serverconfig.Config) {
			c.AdvertiseProxies = []string{"0.0.0.0:1"}
		}, "advertise-proxies"},

		{"every address alone", func(c *serverconfig.Config) { c.Fabric = "0.0.0.0:7351" }, "say with advertise"},
		{"every address in short", func(c *serverconfig.Config) { c.Fabric = ":7351" }, "say with advertise"},
		{
			"nobody's address advertised", func(c *serverconfig.Config) { c.Advertise = []string{"[::]:1"} },
			`advertise "[::]:1"`,
		},
		{"any port advertised", func(c *serverconfig.Config) { c.Advertise = []string{"x:0"} }, "expected a port"},
		{
			"a URL advertised", func(c *serverconfig.Config) { c.Advertise = []string{"tls://x:1"} },
			"expected HOST:PORT",
		},
		{"no port", func(c *serverconfig.Config) { c.HTTP = "x" }, `http "x": expected HOST:PORT`},
		{"a port that is none", func(c *serverconfig.Config) { c.Fabric = "x:nats" }, `fabric "x:nats"`},
		{"half a certificate", func(c *serverconfig.Config) { c.TLSCert = file }, "expected both or none"},
		{
			"a certificate that is not there", func(c *serverconfig.Config) { c.TLSCert, c.TLSKey = "/none", file },
			"tls-cert: open /none",
		},
		{
			"both", func(c *serverconfig.Config) { c.TLSCert, c.TLSKey, c.InsecureHTTP = file, file, true },
			"exclude each other",
		},
		{
			"a gateway that is everybody", func(c *serverconfig.Config) { c.TrustedGateway = []string{"0.0.0.0/0"} },
			"trusted-gateway",
		},
		{"a level", func(c *serverconfig.Config) { c.LogLevel = "loud" }, "log-level"},
		{"half an app", func(c *serverconfig.Config) { c.Bootstrap.AppCode = "x" }, "DROVER_BOOTSTRAP_APP_CODE"},
		{"no directory", func(c *serverconfig.Config) { c.DataDir = "" }, "data-dir"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := valid(t)
			c.set(&cfg)
			err := cfg.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one about %q", err, c.want)
			}
		})
	}
	all := serverconfig.Config{HTTP: "x", Fabric: "y", LogLevel: "z"}
	if err := all.Validate(); strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not everything is told: %v", err)
	}
}

func TestNames(t *testing.T) {
	c := serverconfig.Config{
		HTTP: "0.0.0.0:1", Fabric: "192.0.2.1:2",
		Advertise: []string{"drover.example:3", "192.0.2.1:4", "[2001:db8::1]:5"},
	}
	names := c.Names()
	if diff := cmp.Diff([]string{"192.0.2.1", "drover.example", "2001:db8::1"}, names[:3]); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(names, "127.0.0.1") || slices.Contains(names, "0.0.0.0") {
		t.Errorf("names are %q", names)
	}
}

// TestHasPassword: what may hold a password counts as if it did.
func TestHasPassword(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "/srv/drover.db": false, "postgres://u@h/d": false, "postgres:///d?host=/run/postgresql": false,
		"postgres://u:p@h/d": true, "postgres://h/d?user=u&password=p": true, "postgres://u:p%zz@h/d": true,
		"postgres://u:p@a:1,b:2/d": true,
	} {
		if got := serverconfig.HasPassword(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestRemarks: servers that share a database and are to hear each other need a way to.
func TestRemarks(t *testing.T) {
	const shared = "postgres://a/d"
	for name, tt := range map[string]struct {
		c    serverconfig.Config
		want int
	}{
		"a file":               {serverconfig.Config{Database: "/srv/drover.db"}, 0},
		"no way":               {serverconfig.Config{Database: shared}, 1},
		"cluster and no route": {serverconfig.Config{Database: shared, Cluster: "0.0.0.0:7353"}, 1},
		"cluster and route": {serverconfig.Config{
			Database: shared, Cluster: "0.0.0.0:7353",
			Routes: []string{"b:7353"},
		}, 0},
		"brokers of others": {serverconfig.Config{Database: shared, NATS: []string{"tls://n:4222"}}, 0},
	} {
		if got := tt.c.Remarks(); len(got) != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
