package proxyconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/config/proxyconfig"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadFile(t *testing.T) {
	c := proxyconfig.Default()
	if err := c.ReadFile(write(t,
		"data-dir: /d\nfabric: 192.0.2.1:1\nhttp: '[::]:2'\nlog-level: debug\n")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(proxyconfig.Config{DataDir: "/d", Fabric: "192.0.2.1:1", HTTP: "[::]:2", LogLevel: "debug"},
		c); diff != "" {
		t.Error(diff)
	}
	if err := c.ReadFile(write(t, "advertise: x")); err == nil || !strings.Contains(err.Error(), "advertise") {
		t.Errorf("an unknown key: %v", err)
	}
}

// TestEverySettingHasAKey: the names of flags, variables and keys are the same.
func TestEverySettingHasAKey(t *testing.T) {
	var c proxyconfig.Config
	for _, s := range c.Settings() {
		var fresh proxyconfig.Config
		if err := fresh.ReadFile(write(t, s.Name+": x")); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if cmp.Equal(fresh, proxyconfig.Config{}) {
			t.Errorf("%s changes nothing", s.Name)
		}
	}
}

func TestReadEnvironment(t *testing.T) {
	t.Setenv("DROVER_FABRIC", "h:1")
	c := proxyconfig.Default()
	if err := c.ReadEnvironment(); err != nil || c.Fabric != "h:1" {
		t.Errorf("listens on %s, %v", c.Fabric, err)
	}
}

func TestValidate(t *testing.T) {
	c := proxyconfig.Default()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	all := proxyconfig.Config{Fabric: "x", HTTP: "y", LogLevel: "z"}
	err := all.Validate()
	for _, want := range []string{"data-dir", `fabric "x"`, `http "y"`, "log-level"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s: %v", want, err)
		}
	}
}
