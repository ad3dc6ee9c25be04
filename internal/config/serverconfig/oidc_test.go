package serverconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/config/serverconfig"
)

// read writes a file with an identity provider, and reads and validates it.
func read(t *testing.T, text string) (serverconfig.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(path, []byte("advertise: [drover.example.com:7351]\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := serverconfig.Default()
	if err := cfg.ReadFile(path); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOIDC: a file names the provider and the rights of groups; the rest has defaults.
func TestOIDC(t *testing.T) {
	cfg, err := read(t, `
oidc:
  issuer: https://id.example.com/realms/main
  client-id: drover
  client-secret-file: `+secretFile(t, "planted\n")+`
  grants:
    ops: ["operator on *", "viewer on shop* at label:env=prod"]
    boss: [admin]
    guests: []
`)
	o := cfg.OIDC
	if err != nil || o.NameClaim != "email" || o.GroupsClaim != "groups" || strings.Join(o.Scopes, " ") != "openid profile email" {
		t.Fatalf("%+v, %v", o, err)
	}
	if len(o.Groups) != 3 || len(o.Groups["ops"].Grants) != 2 || !o.Groups["boss"].Admin || o.Groups["ops"].Admin {
		t.Errorf("the groups are %+v", o.Groups)
	}
	if cfg, err := read(t, ""); err != nil || cfg.OIDC.Issuer != "" {
		t.Errorf("without a provider: %+v, %v", cfg.OIDC, err)
	}
}

// TestFaultsOfOIDC: all faults are told at once, each by its key, and no secret stands in them.
func TestFaultsOfOIDC(t *testing.T) {
	_, err := read(t, `
oidc:
  issuer: http://user:planted@id.example.com
  client-secret-file: `+secretFile(t, " \n")+`
  redirect-url: https://drover.example.com/ui/
  scopes: [profile, "a b"]
  grants: {ops: [operator], "": [admin], boss: [Admin on *]}
`)
	if err == nil {
		t.Fatal("it is valid")
	}
	for _, want := range []string{
		"oidc.issuer", "oidc.client-id is missing", "oidc.client-secret-file", "oidc.redirect-url", "openid among",
		`"a b" is not a scope`, `group "ops"`, `group "boss"`, "empty name",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing says %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "planted") {
		t.Errorf("it quotes a password: %v", err)
	}
	for text, want := range map[string]string{
		"oidc: {client-id: drover}": "oidc.issuer is missing",
		"oidc: {issuer: https://id.example.com, client-id: d, client-secret-file: /nowhere/secret}":                    "/nowhere/secret",
		"oidc: {issuer: https://id.example.com, client-id: d}":                                                         "client-secret-file is missing",
		"oidc: {issuers: https://id.example.com}":                                                                      "issuers",
		"oidc: {issuer: 'https://id.example.com?x=y', client-id: d, client-secret-file: /dev/null}":                    "oidc.issuer",
		"oidc: {issuer: ldap.example.com, client-id: d, client-secret-file: /dev/null}":                                "oidc.issuer",
		"oidc: {issuer: https://id.example.com, client-id: d, client-secret-file: /dev/null, scopes: [openid, 'x y']}": "is empty",
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
