// Package dev is the assembly of drover dev: a server and one agent in one process, on loopback, without
// configuration. The two communicate only over the fabric, exactly as on two machines. The only difference is that
// the agent joins by itself.
package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"drover/internal/agent"
	"drover/internal/agent/uplink"
	"drover/internal/config"
	"drover/internal/group"
	"drover/internal/server"
	"drover/internal/service"
)

// Run runs until ctx ends or a part fails, and tells on the output of s, once calls are taken, how to make
// the first one. The supervised processes are left running.
func Run(ctx context.Context, cfg config.Dev, build string, s *service.Service, log *slog.Logger) error {
	lock, err := config.Lock(ctx, cfg.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written

	var (
		local *agent.Agent
		srv   *server.Server
	)
	srv, err = server.New(ctx, server.Config{
		Dir: filepath.Join(cfg.DataDir, "server"), HTTP: cfg.HTTP, Fabric: "127.0.0.1:0", Build: build,
		Log:             log.With("part", "server"),
		Socket:          filepath.Join(cfg.DataDir, config.SocketName),
		Service:         s,
		TrustedGateways: cfg.TrustedGateways, LoginURL: cfg.LoginURL,
		Extras: server.Extras{
			Ready: func() error {
				if err := local.Ready(); err != nil {
					return err
				}
				return srv.Introduced(local.Key())
			},
			Notes:   func() []string { return local.Notes() },
			Metrics: func(w io.Writer) error { return local.WriteMetrics(w) },
		},
	})
	if err != nil {
		return err
	}
	defer srv.Close()
	code, secret, made, err := srv.FirstApp(ctx, cfg.Bootstrap.AppCode, cfg.Bootstrap.AppSecret)
	if err != nil {
		return err
	}
	if local, err = join(ctx, srv, cfg, build, s, log.With("part", "agent")); err != nil {
		return err
	}
	notes := local.Notes()
	console, err := srv.SignInLink(ctx)
	if err != nil { // such as on a full disk, on which drover still supervises
		notes = append(notes, err.Error())
	}
	hello := banner{
		url: srv.URL(), console: console, code: code, secret: secret, made: made && cfg.Bootstrap.AppCode == "",
		cfg: cfg, notes: notes,
	}
	return group.Run(ctx,
		group.Part{Name: "server", Run: srv.Run},
		group.Part{Name: "agent", Run: local.Run},
		group.Part{Name: "http", Run: srv.Serve},
		group.Part{Name: "banner", Run: func(ctx context.Context) error {
			return srv.Announce(ctx, s.Out(), hello.text())
		}},
	)
}

// join enrols the local agent. It does so at each start, because the address of the fabric may have changed.
func join(ctx context.Context, srv *server.Server, cfg config.Dev, build string,
	s *service.Service, log *slog.Logger,
) (*agent.Agent, error) {
	dir := filepath.Join(cfg.DataDir, "agent")
	key, err := agent.OwnKey(dir)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot read agent key: %w", err)
	}
	keys, err := agent.SealingKeys(dir, key)
	if err != nil {
		return nil, err
	}
	sealing, _, _ := keys.Newest()
	enrolment, err := srv.Enrol(ctx, public, sealing, cfg.AgentCloud, cfg.AgentIP, cfg.AgentID)
	if err != nil {
		return nil, err
	}
	if err := uplink.ReplaceEnrolment(dir, enrolment); err != nil {
		return nil, err
	}
	return agent.New(agent.Config{Dir: dir, Build: build, Settings: cfg.Agent, Service: s, Log: log})
}

type banner struct {
	url, code, secret string
	// console is a link that signs a browser in.
	console string
	made    bool
	cfg     config.Dev
	notes   []string
}

func (b banner) text() string {
	var text strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&text, "  %-10s  "+format+"\n", append([]any{label}, args...)...)
	}
	secret := b.secret
	text.WriteString("\ndrover is ready.\n\n")
	if b.console != "" {
		line("console", "%s   (signs in once)", b.console)
	}
	line("URL", "%s", b.url)
	line("app code", "%s", b.code)
	switch {
	case b.made:
		line("app secret", "%s   (shown this once, stored only as a hash)", b.secret)
	case b.secret != "":
		line("app secret", "as given by DROVER_BOOTSTRAP_APP_SECRET")
		secret = "$DROVER_BOOTSTRAP_APP_SECRET"
	default:
		line("app secret", "shown when this data directory was new; put it into DROVER_APP_SECRET")
		secret = "$DROVER_APP_SECRET"
	}
	asked := b.cfg.AgentID
	if asked == "" {
		asked = fmt.Sprintf("%d:%s", b.cfg.AgentCloud, b.cfg.AgentIP)
	}
	line("agent", "%s", asked)
	line("data", "%s", b.cfg.DataDir)
	for _, note := range b.notes {
		line("note", "%s", note)
	}
	fmt.Fprintf(&text, `
Ask for all processes of a namespace (none yet):

  curl -sS %s/api/v2/proc/sync_proc_status -d "{\"bk_app_code\":\"%s\",\"bk_app_secret\":\"%s\",\"bk_username\":\"me\",\"meta\":{\"namespace\":\"quickstart\"},\"page\":{\"start\":0,\"limit\":100}}"

Next: examples/quickstart.sh runs a real daemon through its whole life; in another terminal, %s lists what there is
(bin/drover after make build). Ctrl-C ends drover and leaves the processes running.

`, b.url, b.code, secret, b.listing())
	return text.String()
}

// listing is the command that finds this server by its socket.
func (b banner) listing() string {
	if b.cfg.DataDir == config.DataDir() {
		return "drover ps"
	}
	return "drover ps --data-dir " + b.cfg.DataDir
}
