// Package config turns flags and environment variables into validated values. It is the only place that reads the
// environment.
package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// defaultHTTP is the address at which drover dev listens.
const defaultHTTP = "127.0.0.1:7350"

// Dev holds the settings of drover dev.
type Dev struct {
	DataDir string
	HTTP    string
	// AgentCloud, AgentIP and AgentID name the local agent for callers.
	AgentCloud int
	AgentIP    string
	AgentID    string
	// TrustedGateways are the peers that may name the caller on the paths of a gateway's backends. The default is none.
	TrustedGateways Prefixes
	// LoginURL is a BlueKing login service that knows users' sessions; empty means none.
	LoginURL  string
	Bootstrap Bootstrap
	// Agent is how the local agent watches over its processes.
	Agent Agent
}

// Bootstrap is the first app. Both parts are empty when it is to be generated.
type Bootstrap struct {
	AppCode   string
	AppSecret string
}

// The limits of the API.
const (
	maxAppCode   = 32
	maxAppSecret = 128
)

// DefaultDev returns the default settings of drover dev.
func DefaultDev() Dev {
	return Dev{DataDir: DataDir(), HTTP: defaultHTTP, AgentIP: "127.0.0.1", Agent: DefaultAgent()}
}

// DataDir returns the default data directory: /var/lib/drover as root, else drover below $XDG_STATE_HOME.
func DataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/drover"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "drover")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d", os.Geteuid()))
	}
	return filepath.Join(home, ".local", "state", "drover")
}

// FromEnvironment reads the first app's credentials.
func FromEnvironment() Bootstrap {
	return Bootstrap{
		AppCode:   os.Getenv("DROVER_BOOTSTRAP_APP_CODE"),
		AppSecret: os.Getenv("DROVER_BOOTSTRAP_APP_SECRET"),
	}
}

// Validate returns an error with every invalid setting, and makes the data directory absolute.
func (d *Dev) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if abs, err := filepath.Abs(d.DataDir); err != nil {
		fault("--data-dir %q: %w", d.DataDir, err)
	} else {
		d.DataDir = abs
	}
	if host, _, err := net.SplitHostPort(d.HTTP); err != nil {
		fault("--http %q: expected address:port, such as %s", d.HTTP, defaultHTTP)
	} else if ip, err := netip.ParseAddr(host); (err != nil || !ip.IsLoopback()) && host != "localhost" {
		fault("--http %q: drover dev listens on loopback only, expected 127.0.0.1:PORT", d.HTTP)
	}
	if _, err := netip.ParseAddr(d.AgentIP); err != nil {
		fault("--agent-ip %q: expected an IP address", d.AgentIP)
	}
	if d.AgentCloud < 0 {
		fault("--agent-cloud %d: expected 0 or more", d.AgentCloud)
	}
	if len(d.AgentID) > 64 {
		fault("--agent-id is %d characters long: expected at most 64", len(d.AgentID))
	}
	return errors.Join(append(faults, d.Bootstrap.Validate(), d.Agent.Validate())...)
}

// Validate returns an error if a setting is invalid. The error does not quote a secret.
func (b Bootstrap) Validate() error {
	const names = "DROVER_BOOTSTRAP_APP_CODE and DROVER_BOOTSTRAP_APP_SECRET: expected "
	switch {
	case (b.AppCode == "") != (b.AppSecret == ""):
		return errors.New(names + "both or none")
	case len(b.AppCode) > maxAppCode || len(b.AppSecret) > maxAppSecret:
		return fmt.Errorf(names+"at most %d and %d characters", maxAppCode, maxAppSecret)
	default:
		return nil
	}
}

// Hold is a data directory that this process has to itself.
type Hold struct {
	file *os.File
	// made is the directory if Lock has created it, else "".
	made string
}

// Lock takes hold of a data directory, which is made with mode 0700, until the hold is closed or the process ends. It
// blocks while another process holds it, for at most 2 s or until ctx ends, and then fails.
func Lock(ctx context.Context, dir string) (*Hold, error) {
	made := ""
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		made = dir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock data directory: %w", err)
	}
	if err := lock(ctx, f); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil,
				fmt.Errorf("data directory %s is in use by another drover: stop it, or choose another with --data-dir",
					dir)
		}
		return nil, fmt.Errorf("cannot lock data directory %s: %w", dir, err)
	}
	if held, err := f.Stat(); err == nil {
		if there, err := os.Stat(f.Name()); err != nil || !os.SameFile(held, there) {
			_ = f.Close()
			return Lock(ctx, dir) // another process has just removed the file with its directory
		}
	}
	return &Hold{f, made}, nil
}

// lockTime is how long a process that starts waits for the lock, and lockEvery is how often it looks. A process that
// was killed may leave a child that has not executed its program yet. The child has a copy of each descriptor, and so
// the lock (flock(2)).
const (
	lockTime  = 2 * time.Second
	lockEvery = 10 * time.Millisecond
)

// lock locks a file. It returns EWOULDBLOCK if another process keeps the lock for lockTime, or until ctx ends.
func lock(ctx context.Context, f *os.File) error {
	limit, each := time.NewTimer(lockTime), time.NewTicker(lockEvery)
	defer limit.Stop()
	defer each.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err //nolint:wrapcheck // Lock adds the directory
		}
		select {
		case <-each.C:
		case <-limit.C:
			return err //nolint:wrapcheck // as above
		case <-ctx.Done():
			return err //nolint:wrapcheck // as above
		}
	}
}

// Close releases the directory. If Lock created the directory and it is still empty, Close removes it, so that a failed
// start leaves no trace.
func (h *Hold) Close() error {
	if h.made != "" {
		if entries, err := os.ReadDir(h.made); err == nil && len(entries) == 1 && entries[0].Name() == lockName {
			_ = os.Remove(filepath.Join(h.made, lockName))
			_ = os.Remove(h.made)
		}
	}
	return h.file.Close()
}

const lockName = "lock"
