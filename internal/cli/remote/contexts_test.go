package remote_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"drover/internal/cli/remote"
)

// TestContextsAreKept: programs that change the contexts at the same time lose nothing, and the file is the person's
// own.
func TestContextsAreKept(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	if all, err := remote.ReadContexts(); err != nil || len(all.List) > 0 || all.Find("") != nil {
		t.Fatalf("without a file: %+v, %v", all, err)
	}
	var people sync.WaitGroup
	for n := range 20 {
		people.Go(func() {
			err := remote.ChangeContexts(func(all *remote.Contexts) error {
				all.Put(remote.Context{
					Name: fmt.Sprintf("c%02d", n), Server: "https://" + fmt.Sprint(n), Token: "t",
					ExpiresAt: time.Now().Add(time.Hour),
				})
				all.Current = "c07"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	people.Wait()
	all, err := remote.ReadContexts()
	if err != nil || len(all.List) != 20 || all.Find("").Name != "c07" || all.At("https://3").Name != "c03" ||
		all.List[0].Name != "c00" {
		t.Fatalf("%+v, %v", all, err)
	}
	path := filepath.Join(home, "drover", "credentials")
	for at, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", at, info, err)
		}
	}
	stop := errors.New("stop")
	if err := remote.ChangeContexts(func(all *remote.Contexts) error {
		all.Remove("c07")
		return stop
	}); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if err := remote.ChangeContexts(func(all *remote.Contexts) error {
		all.Remove("c07")
		all.Find("c03").ExpiresAt = time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if all, err = remote.ReadContexts(); err != nil || len(all.List) != 19 || all.Find("") != nil ||
		all.At("https://3") != nil {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := remote.ChangeContexts(func(*remote.Contexts) error { return nil }); err == nil {
		t.Error("a damaged file is replaced")
	}
}
