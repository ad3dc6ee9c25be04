package login

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

func TestSessionsAreForgotten(t *testing.T) {
	c, err := New("http://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	now, hash := time.Now(), sha256.Sum256([]byte("token"))
	c.remember(hash, "ann", now)
	if user, ok := c.remembered(hash, now.Add(remembered-1)); !ok || user != "ann" {
		t.Errorf("within its time the session is %q, %v", user, ok)
	}
	if _, ok := c.remembered(hash, now.Add(remembered)); ok {
		t.Error("the session counts after its time")
	}
	for i := range 2 * mostRemembered {
		c.remember(sha256.Sum256([]byte(fmt.Sprint(i))), "bob", now)
		if len(c.known) > mostRemembered {
			t.Fatalf("%d sessions are remembered", len(c.known))
		}
	}
}
