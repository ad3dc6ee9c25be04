package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/config"
)

func valid(t *testing.T) config.Dev {
	t.Helper()
	d := config.DefaultDev()
	d.DataDir = t.TempDir()
	return d
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(d *config.Dev)
		want string
	}{
		{"the defaults", func(*config.Dev) {}, ""},
		{"any port", func(d *config.Dev) { d.HTTP = "127.0.0.1:0" }, ""},
		{"IPv6", func(d *config.Dev) { d.HTTP, d.AgentIP = "[::1]:7350", "fe80::1" }, ""},
		{"a name of the loopback", func(d *config.Dev) { d.HTTP = "localhost:7350" }, ""},
		{"another loopback address", func(d *config.Dev) { d.HTTP = "127.1.2.3:7350" }, ""},
		{"another area", func(d *config.Dev) { d.AgentCloud, d.AgentID = 415, strings.Repeat("a", 64) }, ""},
		{"an app of one's own", func(d *config.Dev) {
			d.Bootstrap = config.Bootstrap{AppCode: strings.Repeat("c", 32), AppSecret: strings.Repeat("s", 128)}
		}, ""},

		{
			"everybody", func(d *config.Dev) { d.HTTP = "0.0.0.0:7350" },
			`--http "0.0.0.0:7350": drover dev listens on loopback only, expected 127.0.0.1:PORT`,
		},
		{
			"everybody, in short", func(d *config.Dev) { d.HTTP = ":7350" },
			`--http ":7350": drover dev listens on loopback only, expected 127.0.0.1:PORT`,
		},
		{
			"a name", func(d *config.Dev) { d.HTTP = "example.com:80" },
			`--http "example.com:80": drover dev listens on loopback only, expected 127.0.0.1:PORT`,
		},
		{
			"no port", func(d *config.Dev) { d.HTTP = "127.0.0.1" },
			`--http "127.0.0.1": expected address:port, such as 127.0.0.1:7350`,
		},
		{"no address", func(d *config.Dev) { d.AgentIP = "" }, `--agent-ip "": expected an IP address`},
		{
			"a name for an address", func(d *config.Dev) { d.AgentIP = "host" },
			`--agent-ip "host": expected an IP address`,
		},
		{"a negative area", func(d *config.Dev) { d.AgentCloud = -1 }, "--agent-cloud -1: expected 0 or more"},
		{
			"a long id", func(d *config.Dev) { d.AgentID = strings.Repeat("a", 65) },
			"--agent-id is 65 characters long: expected at most 64",
		},
		{
			"a code without a secret", func(d *config.Dev) { d.Bootstrap.AppCode = "c" },
			"DROVER_BOOTSTRAP_APP_CODE and DROVER_BOOTSTRAP_APP_SECRET: expected both or none",
		},
		{
			"a secret without a code", func(d *config.Dev) { d.Bootstrap.AppSecret = "s" },
			"DROVER_BOOTSTRAP_APP_CODE and DROVER_BOOTSTRAP_APP_SECRET: expected both or none",
		},
		{
			"a long code", func(d *config.Dev) {
				d.Bootstrap = config.Bootstrap{AppCode: strings.Repeat("c", 33), AppSecret: "hunter2"}
			},
			"DROVER_BOOTSTRAP_APP_CODE and DROVER_BOOTSTRAP_APP_SECRET: expected at most 32 and 128 characters",
		},
		{
			"everything at once", func(d *config.Dev) { d.HTTP, d.AgentIP, d.AgentCloud = "x", "y", -2 },
			"--http \"x\": expected address:port, such as 127.0.0.1:7350\n--agent-ip \"y\": expected an IP address\n--agent-cloud -2: expected 0 or more",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := valid(t)
			c.set(&d)
			err := d.Validate()
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %q,\nwant %q", got, c.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Error("the error holds the secret")
			}
		})
	}
}

func TestValidateMakesTheDirectoryAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	d := valid(t)
	d.DataDir = "data/.."
	if err := d.Validate(); err != nil || d.DataDir != dir {
		t.Errorf("it is %q, %v; want %q", d.DataDir, err, dir)
	}
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv("DROVER_BOOTSTRAP_APP_CODE", "code")
	t.Setenv("DROVER_BOOTSTRAP_APP_SECRET", "secret")
	if diff := cmp.Diff(config.Bootstrap{AppCode: "code", AppSecret: "secret"}, config.FromEnvironment()); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

func TestDataDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	t.Setenv("HOME", "/home/somebody")
	want := "/state/drover"
	if os.Geteuid() == 0 {
		want = "/var/lib/drover"
	}
	if got := config.DataDir(); got != want || config.DefaultDev().DataDir != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	lock, err := config.Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	ended, end := context.WithCancel(t.Context())
	end() // or Lock waits
	if _, err := config.Lock(ended, dir); err == nil || err.Error() != "data directory "+dir+
		" is in use by another drover: stop it, or choose another with --data-dir" {
		t.Errorf("a second one: %v", err)
	}
	if other, err := config.Lock(t.Context(), t.TempDir()); err != nil {
		t.Errorf("another directory: %v", err)
	} else if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that it has made and nobody has used is left: %v", err)
	}
	for range 2 {
		again, err := config.Lock(t.Context(), dir)
		if err != nil {
			t.Fatalf("after the one before has ended: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
			t.Errorf("what is in use was removed: %v", err)
		}
	}
}

// A child of a process that was killed keeps the lock until it executes its program.
func TestLockWaitsForTheLast(t *testing.T) {
	dir := t.TempDir()
	last, err := config.Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() {
		if err := last.Close(); err != nil {
			t.Error(err)
		}
	})
	next, err := config.Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Lock(t.Context(), file); err == nil || !strings.Contains(err.Error(), "cannot create data directory") {
		t.Errorf("a file: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Lock(t.Context(), dir); err == nil || errors.Is(err, os.ErrExist) ||
		!strings.Contains(err.Error(), "cannot lock data directory") {
		t.Errorf("a directory in its place: %v", err)
	}
}
