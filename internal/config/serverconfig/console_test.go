package serverconfig_test

import (
	"strings"
	"testing"
)

// TestConsole: the block has every setting, and its faults name the keys, all at once.
func TestConsole(t *testing.T) {
	cfg, err := read(t, `
console:
  behind-tls: [10.0.0.5, 192.0.2.0/24]
  hosts: [Drover.Example.com, "2001:db8::1"]
  base-path: /tools/drover
  type-count-above: 5
  reason-required-at: ["env=prod", "zone in (a,b)"]
  grafana-url: https://grafana.example.com/d/drover?var-ns={namespace}&var-p={process}&var-h={host}
`)
	c := cfg.Console
	if err != nil || len(c.Proxies) != 2 || c.Hosts[0] != "drover.example.com" || *c.TypeCountAbove != 5 ||
		len(c.ReasonRequiredAt) != 2 || c.GrafanaURL == "" || c.BasePath != "/tools/drover" {
		t.Fatalf("%+v, %v", c, err)
	}
	_, err = read(t, `
console:
  behind-tls: [proxy, 0.0.0.0/0]
  hosts: ["https://drover.example.com", ""]
  type-count-above: 0
  reason-required-at: ["env ="]
  grafana-url: grafana.example.com/{name}
`)
	if err == nil {
		t.Fatal("faults are accepted")
	}
	for _, want := range []string{
		`console.behind-tls: "proxy"`, `console.behind-tls: "0.0.0.0/0" contains every address`,
		`console.hosts: "https://drover.example.com"`, `console.hosts: ""`, "console.type-count-above is 0",
		`console.reason-required-at: "env ="`, "console.grafana-url",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	for _, path := range []string{"drover", "/", "/drover/", "//drover", "/a/../b", "/ui", "/api/drover", "/a b", `/a"b`} {
		if _, err := read(t, "console: {base-path: '"+path+"'}"); err == nil || !strings.Contains(err.Error(), "console.base-path") {
			t.Errorf("the base path %q: %v", path, err)
		}
	}
	_, err = read(t, `
console: {base-path: /drover}
oidc: {issuer: "https://id.example.com", redirect-url: "https://drover.example.com/ui/login/oidc/callback"}
`)
	if err == nil || !strings.Contains(err.Error(), "expected a URL such as https://drover.example.com/drover/ui/login/oidc/callback") {
		t.Errorf("a redirect URL without the base path: %v", err)
	}
	if _, err := read(t, "console: {base: /x}"); err == nil || !strings.Contains(err.Error(), "base") {
		t.Errorf("an unknown key: %v", err)
	}
}
