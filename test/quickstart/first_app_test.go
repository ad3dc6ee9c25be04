package quickstart_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestFirstAppIsNotInAJournal: a server whose output nobody looks at, as under systemd, keeps the secret of the first
// app in a file of its own.
func TestFirstAppIsNotInAJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	log := &harness.Log{}
	log.ShowIfFailed(t, "the server")
	fabric := harness.FreeAddress(t)
	p := harness.Launch(t, log, harness.Environment("/"), binaries.drover, "server", "--data-dir", dir, "--http",
		"127.0.0.1:0",
		"--fabric", fabric, "--advertise", fabric)
	defer p.End(syscall.SIGTERM)
	file := filepath.Join(dir, "server", "first-app")
	harness.Eventually(t, "the banner",
		func() bool { return strings.Contains(p.Out.String(), "app secret   in "+file) })
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v (%v)", info.Mode(), err)
	}
	_, secret, found := strings.Cut(strings.TrimSpace(string(text)), "DROVER_APP_SECRET=")
	if !found || len(secret) < 16 || strings.Contains(log.String()+p.Out.String(), secret) {
		t.Errorf("the file says %q, and the output tells its secret: %v", text,
			strings.Contains(log.String()+p.Out.String(), secret))
	}
	env := harness.Environment("/", append(strings.Fields(string(text)), "DROVER_SERVER="+p.URL(), "SSL_CERT_FILE="+
		filepath.Join(dir, "server", "pki", "ca.pem"))...)
	if r := harness.Finish(t, "", env, binaries.drover, "app", "list"); r.Code != 0 {
		t.Errorf("with the file's credentials: exit code %d, %s", r.Code, r.Errors)
	}
}
