// Package serve is the assembly of drover server: a server that agents on other machines join, without an agent. It
// owns the order in which the server starts, and the messages to its operator. Package server owns listeners,
// certificates and the meaning of calls.
package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"drover/internal/config"
	"drover/internal/config/serverconfig"
	"drover/internal/group"
	"drover/internal/server"
	"drover/internal/server/breaker"
	"drover/internal/server/provider"
	"drover/internal/server/webui"
	"drover/internal/service"
)

// rule returns the rule of breakers with the given thresholds.
func rule(t serverconfig.Thresholds) breaker.Rule {
	r := breaker.Default()
	r.Share, r.Least = cmp.Or(t.Share, r.Share), cmp.Or(t.Hosts, r.Least)
	r.Window, r.Hold = cmp.Or(t.Window, r.Window), cmp.Or(t.Hold, r.Hold)
	return r
}

// console returns the settings of the console.
func console(c serverconfig.Console) webui.Settings {
	s := webui.Settings{
		BehindTLS: c.Proxies, Hosts: c.Hosts, BasePath: c.BasePath, ReasonAt: c.ReasonRequiredAt, Grafana: c.GrafanaURL,
	}
	if c.TypeCountAbove != nil {
		s.TypeAbove = *c.TypeCountAbove
	}
	return s
}

// identityProvider returns the identity provider of the settings; nil if there is none.
func identityProvider(o serverconfig.OIDC) *server.OIDC {
	if o.Issuer == "" {
		return nil
	}
	return &server.OIDC{
		Config: provider.Config{
			Issuer: o.Issuer, ClientID: o.ClientID, SecretFile: o.ClientSecretFile, Scopes: o.Scopes,
			NameClaim: o.NameClaim, GroupsClaim: o.GroupsClaim,
		},
		RedirectURL: o.RedirectURL, Groups: o.Groups,
	}
}

// Run runs until ctx ends or a part fails, and tells on the output of s, once calls are taken, where the API
// is and what to trust.
func Run(ctx context.Context, cfg serverconfig.Config, build string, s *service.Service, log *slog.Logger) error {
	lock, err := config.Lock(ctx, cfg.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	srv, err := server.New(ctx, server.Config{
		Dir: filepath.Join(cfg.DataDir, "server"), HTTP: cfg.HTTP, Fabric: cfg.Fabric, NATS: cfg.NATS,
		Cluster: cfg.Cluster, Routes: cfg.Routes, Database: cfg.Database, Build: build, Log: log,
		Service:         s,
		Socket:          filepath.Join(cfg.DataDir, config.SocketName),
		TrustedGateways: cfg.Gateways, LoginURL: cfg.LoginURL, Breadth: cfg.Breadth,
		Breakers: rule(cfg.Thresholds), OIDC: identityProvider(cfg.OIDC), Console: console(cfg.Console),
		Fleet: &server.Fleet{
			Advertise: cfg.Advertise, Proxies: cfg.Listen, AdvertiseProxies: cfg.AdvertiseProxies, Names: cfg.Names(),
			CertFile: cfg.TLSCert, KeyFile: cfg.TLSKey, InsecureHTTP: cfg.InsecureHTTP,
		},
	})
	if err != nil {
		return err
	}
	defer srv.Close()
	hello := banner{url: srv.URL(), dataDir: cfg.DataDir, trust: srv.Trust(), agents: srv.FabricURLs()}
	if hello.code, hello.secret, hello.made, err = srv.FirstApp(ctx, cfg.Bootstrap.AppCode,
		cfg.Bootstrap.AppSecret); err != nil {
		return err
	}
	// Whatever reads the output but a person may keep it, as a journal does.
	hello.made = hello.made && cfg.Bootstrap.AppCode == ""
	if hello.made && !term.IsTerminal(int(s.Out().Fd())) {
		if hello.file, err = keepSecret(cfg.DataDir, hello.code, hello.secret); err != nil {
			return err
		}
	}
	return group.Run(ctx,
		group.Part{Name: "server", Run: srv.Run},
		group.Part{Name: "http", Run: srv.Serve},
		group.Part{Name: "banner", Run: func(ctx context.Context) error {
			return srv.Announce(ctx, s.Out(), hello.text())
		}},
	)
}

// keepSecret writes the credentials of the first app where only the server's account and root can read them.
func keepSecret(dataDir, code, secret string) (path string, err error) {
	path = filepath.Join(dataDir, "server", "first-app")
	text := fmt.Sprintf("DROVER_APP_CODE=%s\nDROVER_APP_SECRET=%s\n", code, secret)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("cannot keep the secret of the first app: %w", err)
	}
	return path, nil
}

type banner struct {
	url, dataDir string
	code, secret string
	made         bool
	// file is where the secret is, where it is not shown.
	file   string
	trust  server.Trust
	agents []string
}

func (b banner) text() string {
	var text strings.Builder
	line := func(label, value string) { fmt.Fprintf(&text, "  %-11s  %s\n", label, value) }
	text.WriteString("\ndrover server is ready.\n\n")
	line("URL", b.url)
	line("agents", strings.Join(b.agents, " "))
	if b.trust.CAFile != "" {
		line("CA", b.trust.CAFile)
	}
	line("fingerprint", b.trust.Fingerprint)
	line("data", b.dataDir)
	if b.made {
		line("app code", b.code)
		if b.file != "" {
			line("app secret", "in "+b.file+"   (keep it elsewhere, and remove the file)")
		} else {
			line("app secret", b.secret+"   (shown this once, stored only as a hash)")
		}
	}
	at := ""
	if b.dataDir != config.DataDir() {
		at = " --data-dir " + b.dataDir
	}
	fmt.Fprintf(&text, `
Let a host join area 0, within the next hour:

  drover token create --area 0 --uses 1 --ttl 1h%s
  drover-agent join --server URL --token -      # on the host; URL is the one above as the host reaches it

`, at)
	return text.String()
}
