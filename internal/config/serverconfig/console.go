package serverconfig

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"drover/internal/config"
	"drover/internal/selector"
)

// Console holds the settings of the console.
type Console struct {
	// BehindTLS are the networks of proxies in front of the server that speak TLS with browsers.
	BehindTLS []string `yaml:"behind-tls"`
	// Hosts are further names under which people open the console, without a port.
	Hosts []string `yaml:"hosts"`
	// BasePath is what a proxy in front of the server puts before every path, such as /drover.
	BasePath string `yaml:"base-path"`
	// TypeCountAbove is the largest number of processes that an operation may concern without a typed number. The
	// default is 20.
	TypeCountAbove *int `yaml:"type-count-above"`
	// ReasonRequiredAt are expressions about hosts: an operation on one of these needs a reason.
	ReasonRequiredAt []string `yaml:"reason-required-at"`
	// GrafanaURL is a URL with the placeholders {namespace}, {process} and {host}.
	GrafanaURL string `yaml:"grafana-url"`
	// Proxies are the parsed BehindTLS, once Validate has returned.
	Proxies []netip.Prefix `yaml:"-"`
}

// basePath matches clean paths that need no escapes.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_][A-Za-z0-9._~-]*)+$`)

// isBase reports whether a path can stand before the paths of the server.
func isBase(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return basePath.MatchString(path) && first != "ui" && first != "api"
}

// mostReasons is the largest number of expressions that demand a reason: each costs a look at every operation.
const mostReasons = 20

// read validates the settings.
func (c *Console) read(fault func(format string, args ...any)) {
	for _, text := range c.BehindTLS {
		var one config.Prefixes
		if err := one.Set(text); err != nil {
			fault("console.behind-tls: %w", err)
		}
		c.Proxies = append(c.Proxies, one...)
	}
	for i, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/:@ ") && !isAddress(host) {
			fault("console.hosts: %q is not a name: expected a host name or an address without a port", host)
		}
		c.Hosts[i] = strings.ToLower(host)
	}
	if c.BasePath != "" && !isBase(c.BasePath) {
		fault("console.base-path is %q: expected a path such as /drover, without a slash at its end and not below /ui or /api",
			c.BasePath)
	}
	if n := c.TypeCountAbove; n != nil && *n < 1 {
		fault("console.type-count-above is %d: expected a number of processes, from 1", *n)
	}
	if len(c.ReasonRequiredAt) > mostReasons {
		fault("console.reason-required-at has %d expressions: expected at most %d", len(c.ReasonRequiredAt), mostReasons)
	}
	for _, text := range c.ReasonRequiredAt {
		if _, err := selector.Parse(text); err != nil {
			fault("console.reason-required-at: %q %w", text, err)
		}
	}
	c.checkGrafana(fault)
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// checkGrafana checks the URL without its placeholders.
func (c *Console) checkGrafana(fault func(format string, args ...any)) {
	if c.GrafanaURL == "" {
		return
	}
	plain := strings.NewReplacer("{namespace}", "n", "{process}", "p", "{host}", "h").Replace(c.GrafanaURL)
	u, err := url.Parse(plain)
	if err != nil || u.Host == "" || u.User != nil || !slices.Contains([]string{"https", "http"}, u.Scheme) ||
		strings.ContainsAny(plain, "{}") {
		fault("console.grafana-url %q: expected a URL such as https://grafana.example.com/d/drover?var-process={process} "+
			"with the placeholders {namespace}, {process} and {host}", shownURL(c.GrafanaURL))
	}
}
