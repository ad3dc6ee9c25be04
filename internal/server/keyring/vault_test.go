package keyring_test

import (
	"bytes"
	"testing"
	"time"

	"drover/internal/server/keyring"
)

// vault opens a vault for a purpose with the keys that a ring has now.
func vault(t *testing.T, r *keyring.Ring, purpose string) keyring.Vault {
	t.Helper()
	v, err := keyring.OpenVault(func() ([][]byte, error) { return r.Secrets(purpose) })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAVaultThroughARotation: what is sealed opens as long as its key is kept, for its purpose and by its name only, and
// the next key seals nothing.
func TestAVaultThroughARotation(t *testing.T) {
	r := open(t, t.TempDir(), &facts{kept: map[string]string{}})
	text := []byte("planted")
	old := vault(t, r, "tests").Seal(text, "one")
	if _, _, err := vault(t, r, "others").Open(old, "one"); err == nil {
		t.Error("it opens for another purpose")
	}
	if _, _, err := vault(t, r, "tests").Open(old, "two"); err == nil {
		t.Error("it opens under another name")
	}
	opens := func(step, sealed string, want bool) {
		t.Helper()
		got, former, err := vault(t, r, "tests").Open(sealed, "one")
		if err != nil || !bytes.Equal(got, text) || former != want {
			t.Errorf("%s: it opens as %q, by a former key: %v, want %v: %v", step, got, former, want, err)
		}
	}
	first, err := r.Secrets("tests")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Announce(t.Context(), keyring.Sealing); err != nil {
		t.Fatal(err)
	}
	opens("next", old, false)
	announced, err := r.Secrets("tests")
	if err != nil || len(announced) != 2 || !bytes.Equal(announced[0], first[0]) || bytes.Equal(announced[1], first[0]) {
		t.Errorf("with a next key there are %d secrets: %v", len(announced), err)
	}
	if _, err := r.Advance(t.Context(), keyring.Sealing, time.Hour); err != nil {
		t.Fatal(err)
	}
	opens("present", old, true)
	renewed := vault(t, r, "tests").Seal(text, "one")
	opens("renewed", renewed, false)
	if _, err := r.Retire(t.Context(), keyring.Sealing, r.State().Keys[keyring.Sealing][0].ID); err != nil {
		t.Fatal(err)
	}
	opens("dropped", renewed, false)
	if _, _, err := vault(t, r, "tests").Open(old, "one"); err == nil {
		t.Error("it opens with a dropped key")
	}
}
