package serverconfig

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"drover/internal/server/access"
)

// OIDC holds the settings of an OpenID Connect provider that signs people in to the console. Without an issuer there is
// none.
type OIDC struct {
	// Issuer is the URL of the provider, as the provider names itself.
	Issuer   string `yaml:"issuer"`
	ClientID string `yaml:"client-id"`
	// ClientSecretFile is the path of a file with the client secret.
	ClientSecretFile string `yaml:"client-secret-file"`
	// RedirectURL is where the provider sends browsers back to. The default is the address that the browser has called.
	RedirectURL string `yaml:"redirect-url"`
	// Scopes are what the server asks for. The default is openid, profile and email.
	Scopes []string `yaml:"scopes"`
	// NameClaim holds the name of a person, and GroupsClaim the groups. The defaults are email and groups.
	NameClaim   string `yaml:"name-claim"`
	GroupsClaim string `yaml:"groups-claim"`
	// Grants are the rights of groups: each is a right as "drover user grant" takes it, or "admin".
	Grants map[string][]string `yaml:"grants"`
	// Groups are the parsed Grants, once Validate has returned.
	Groups access.GroupRights `yaml:"-"`
}

// callbackPath is the end of a redirect URL.
const callbackPath = "/ui/login/oidc/callback"

// maxSecret is the size of the largest file with a client secret, in bytes.
const maxSecret = 4096

// read validates the settings and sets the defaults. base is the path below which browsers find the server.
func (o *OIDC) read(base string, fault func(format string, args ...any)) {
	if o.Issuer == "" {
		if o.ClientID+o.ClientSecretFile+o.RedirectURL+o.NameClaim+o.GroupsClaim != "" ||
			len(o.Scopes)+len(o.Grants) > 0 {
			fault("oidc.issuer is missing: expected the URL of the provider, such as https://id.example.com")
		}
		return
	}
	if u, err := url.Parse(o.Issuer); err != nil || !secure(u) || u.RawQuery != "" {
		fault("oidc.issuer %q: expected an https URL, such as https://id.example.com", shownURL(o.Issuer))
	}
	if o.ClientID == "" {
		fault("oidc.client-id is missing: expected the id of drover at the provider")
	}
	o.checkSecret(fault)
	if u, err := url.Parse(o.RedirectURL); o.RedirectURL != "" && (err != nil || !secure(u) || u.RawQuery != "" ||
		u.Path != base+callbackPath) {
		fault("oidc.redirect-url %q: expected a URL such as https://drover.example.com%s", shownURL(o.RedirectURL),
			base+callbackPath)
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []string{"openid", "profile", "email"}
	}
	if !slices.Contains(o.Scopes, "openid") {
		fault("oidc.scopes: expected openid among the scopes")
	}
	for _, s := range o.Scopes {
		if s == "" || strings.ContainsAny(s, " \t\r\n\"\\") {
			fault("oidc.scopes: %q is not a scope: expected a word", s)
		}
	}
	o.NameClaim, o.GroupsClaim = cmp.Or(o.NameClaim, "email"), cmp.Or(o.GroupsClaim, "groups")
	o.Groups = access.GroupRights{}
	for _, group := range slices.Sorted(maps.Keys(o.Grants)) {
		if group == "" {
			fault("oidc.grants: a group has an empty name")
		}
		rights, err := access.ParseRights(o.Grants[group])
		if err != nil {
			fault("oidc.grants: group %q: %w", group, err)
		}
		o.Groups[group] = rights
	}
}

// checkSecret checks the file with the secret, and never quotes the secret.
func (o *OIDC) checkSecret(fault func(format string, args ...any)) {
	if o.ClientSecretFile == "" {
		fault("oidc.client-secret-file is missing: expected the path of a file with the client secret")
		return
	}
	data, err := os.ReadFile(o.ClientSecretFile)
	switch {
	case err != nil:
		fault("oidc.client-secret-file: %w", err)
	case strings.TrimSpace(string(data)) == "":
		fault("oidc.client-secret-file %q is empty: expected the client secret", o.ClientSecretFile)
	case len(data) > maxSecret:
		fault("oidc.client-secret-file %q has %d bytes: expected at most %d", o.ClientSecretFile, len(data), maxSecret)
	}
}

// secure reports whether a URL is of https, or of http on this machine.
func secure(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	here := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return u.Host != "" && u.User == nil && u.Fragment == "" && (u.Scheme == "https" || u.Scheme == "http" && here)
}

// shownURL is a URL without what may be a password.
func shownURL(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return "…" + text[i:]
	}
	return text
}
