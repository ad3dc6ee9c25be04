package servers_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/config"
	"drover/internal/test/harness"
)

// TestAHostJoinsAtAServerWithoutThePresentSigner: it gets a token that is soon not worth anything, and so it is told
// anew by the other server.
func TestAHostJoinsAtAServerWithoutThePresentSigner(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 2)
	one, two := s.servers[0], s.servers[1]
	one.counts(2)
	rotate := []string{"keys", "rotate", "agent-signer", "--data-dir", one.dir}
	s.must(rotate...)
	// A step that the other server cannot follow is refused, and says where the key is missing.
	harness.Eventually(t, "the second step to be refused for want of the key on the other server", func() bool {
		r := s.run(rotate...)
		if r.Code == 0 {
			t.Fatalf("the next key was taken into use: %s", r.Out)
		}
		return strings.Contains(r.Errors, "the next key is not on server")
	})
	s.must(append(rotate, "--force")...)
	want := one.signer()
	harness.Eventually(t, "the second server to hear of it", func() bool { return two.signer() == want })

	dir := filepath.Join(s.dir, "host")
	s.join(binaries.agent, two, 0, "", "join", "--server", two.url, "--token", "-", "--data-dir", dir, "--ip",
		"127.0.0.2")
	if joined := harness.Enrolment(t, dir); joined.Digest != "" {
		t.Errorf("the host counts as one that goes by the present keys: %q", joined.Digest)
	}
}

// TestAStoppedServerLacksTheNewKeys: a rotation goes past a server that does not run, and names it until it has come
// back with the keys.
func TestAStoppedServerLacksTheNewKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 2)
	one, two := s.servers[0], s.servers[1]
	one.counts(2)
	two.program().End(syscall.SIGKILL)
	const named = " does not run (last seen "
	harness.Eventually(t, "the rotation to go past the server that does not run", func() bool {
		r := s.run("keys", "rotate", "agent-signer", "--wait", "--data-dir", one.dir)
		if r.Code == 0 && (!strings.Contains(r.Errors, named) || !strings.Contains(r.Errors, "lacks keys: agent-signer;")) {
			t.Fatalf("the rotation names no server: %s", r.Errors)
		}
		return r.Code == 0
	})
	two.restart()
	harness.Eventually(t, "the server that has come back to be named no more", func() bool {
		return !strings.Contains(s.run("keys", "list", "--data-dir", one.dir).Errors, named)
	})
}

// counts waits until a server knows of so many servers that are online. A server tells of itself soon after its start.
func (n *node) counts(servers int) {
	n.s.t.Helper()
	local, err := client.New(client.Config{Socket: filepath.Join(n.dir, config.SocketName)})
	if err != nil {
		n.s.t.Fatal(err)
	}
	harness.Eventually(n.s.t, fmt.Sprint(servers, " servers to be online"), func() bool {
		state, err := local.Server(n.s.t.Context())
		return err == nil && state.Servers == servers
	})
}

// signer is the present key that issues agents' tokens, as a server has it.
func (n *node) signer() string {
	n.s.t.Helper()
	var k v1.Keys
	if err := json.Unmarshal([]byte(n.s.must("keys", "list", "-o", "json", "--data-dir", n.dir)), &k); err != nil {
		n.s.t.Fatal(err)
	}
	for _, key := range k.Keys {
		if key.Kind == "agent-signer" && key.Stage == "present" {
			return key.ID
		}
	}
	return ""
}
