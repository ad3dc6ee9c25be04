package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/launch"
)

func TestLookupAccount(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\nbad:x:y:0::/:\n+\n\n1234:x:7:7::/n:/bin/n\n" +
			"app:x:1000:1001:An app,,:/home/app:/usr/sbin/nologin\nbare:x:4294967294:5::::",
		"group": "root:x:0:\ntty:x:5:app,bare\napp:x:1001:app\nbroken\nodd:x:z:app\ndocker:x:999:other,app\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []launch.Account{
		{Name: "root", Groups: []uint32{0}, Home: "/root", Shell: "/bin/bash"},
		{
			Name: "app", UID: 1000, GID: 1001, Groups: []uint32{1001, 5, 999}, Home: "/home/app",
			Shell: "/usr/sbin/nologin",
		},
		{Name: "1234", UID: 7, GID: 7, Groups: []uint32{7}, Home: "/n", Shell: "/bin/n"},
	} {
		got, err := launch.LookupAccount(root, want.Name)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v -want +got\n%s", want.Name, err, diff)
		}
	}
	for number, name := range map[string]string{"0": "root", "1000": "app", "7": "1234", "4294967294": "bare"} {
		if got, err := launch.LookupAccount(root, number); err != nil || got.Name != name {
			t.Errorf("%s: %+v %v, want %s", number, got, err, name)
		}
	}
	for _, name := range []string{"", "no-such-user-here", "4000000001", "+0", "-1", "4294967296", "-s", "--help", "app:x", "app\n", "bad", "+"} {
		got, err := launch.LookupAccount(root, name)
		if !errors.Is(err, launch.ErrNoAccount) {
			t.Errorf("%q: %+v %v", name, got, err)
		}
	}
	_, err := launch.LookupAccount(root, "no-such-user-here")
	if want := `user "no-such-user-here" is unknown on this host`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = launch.LookupAccount(root, "4000000001")
	if want := `user "4000000001" is unknown on this host: no account has this number`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What the files lack is asked of the name service, which here reads the files of the host.
func TestLookupAccountAsksTheNameService(t *testing.T) {
	want, err := launch.LookupAccount("/", "root")
	if err != nil {
		t.Fatal(err)
	}
	got, err := launch.LookupAccount(t.TempDir(), "root")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	if got, err = launch.LookupAccount(t.TempDir(), "0"); err != nil || got.Name != "root" {
		t.Errorf("%+v %v", got, err)
	}
}
