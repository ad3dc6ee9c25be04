package servers_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"drover/client"
	"drover/test/harness"
)

// TestAHostJoinsAtAServerWithoutThePresentSigner: it gets a token that is soon not worth anything, and so it is told anew by the other server.
func TestAHostJoinsAtAServerWithoutThePresentSigner(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 2)
	one, two := s.servers[0], s.servers[1]
	for range 2 {
		s.must("keys", "rotate", "agent-signer", "--data-dir", one.dir)
	}
	want := one.signer()
	harness.Eventually(t, "the second server to hear of it", func() bool { return two.signer() == want })

	dir := filepath.Join(s.dir, "host")
	s.join(binaries.agent, two, 0, "", "join", "--server", two.url, "--token", "-", "--data-dir", dir, "--ip", "127.0.0.2")
	if joined := harness.Enrolment(t, dir); joined.Digest != "" {
		t.Errorf("the host counts as one that goes by the present keys: %q", joined.Digest)
	}
}

// signer is the present key that issues agents' tokens, as a server has it.
func (n *node) signer() string {
	n.s.t.Helper()
	var k client.Keys
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
