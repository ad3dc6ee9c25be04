package serverkeys_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/serverkeys"
)

// keys are the files of a server, and some that are none of its keys.
func keys(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"manifest.nkey": "m", "broker/server-signer.nk": "o", "broker/account.pub": "a", "pki/ca.key": "k", "pki/ca.pem": "c",
		"drover.db": "rows", "broker/port": "1", "pki/.ca.key.123": "half",
	} {
		put(t, filepath.Join(dir, name), text)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func export(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	if n, err := serverkeys.Export(dir, &out); n != 5 || err != nil {
		t.Fatalf("exported %d keys, %v", n, err)
	}
	return out.Bytes()
}

func TestKeysTravel(t *testing.T) {
	from, to := keys(t), filepath.Join(t.TempDir(), "server")
	archive := export(t, from)
	for i, want := range []int{5, 0} { // the second time all are there
		if n, err := serverkeys.Import(to, bytes.NewReader(archive)); n != want || err != nil {
			t.Errorf("import %d: %d keys, %v", i, n, err)
		}
	}
	for _, name := range []string{
		"manifest.nkey", "broker/server-signer.nk", "broker/account.pub", "pki/ca.key",
		"pki/ca.pem",
	} {
		want, _ := os.ReadFile(filepath.Join(from, name))
		got, err := os.ReadFile(filepath.Join(to, name))
		info, statErr := os.Stat(filepath.Join(to, name))
		if err != nil || statErr != nil || !bytes.Equal(got, want) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "drover.db")); err == nil {
		t.Error("the database travels too")
	}
	if !bytes.Equal(export(t, from), archive) {
		t.Error("the same keys make another archive")
	}
}

func TestOtherKeysStay(t *testing.T) {
	archive := export(t, keys(t))
	to := t.TempDir()
	put(t, filepath.Join(to, "broker/account.pub"), "another")
	if _, err := serverkeys.Import(to, bytes.NewReader(archive)); err == nil ||
		!strings.Contains(err.Error(), "keys of another fleet") {
		t.Errorf("import over those of another fleet: %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, "manifest.nkey")); err == nil {
		t.Error("some keys were written")
	}
}

func TestLaterKeys(t *testing.T) {
	from, to := keys(t), keys(t)
	put(t, filepath.Join(from, "keys.json"), `{"revision":2}`)
	put(t, filepath.Join(from, "manifest.nkey"), "new")
	var later, earlier bytes.Buffer
	if _, err := serverkeys.Export(from, &later); err != nil {
		t.Fatal(err)
	}
	if _, err := serverkeys.Export(to, &earlier); err != nil {
		t.Fatal(err)
	}
	if n, err := serverkeys.Import(to, &later); n != 2 || err != nil {
		t.Errorf("later keys: %d were written, %v", n, err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "manifest.nkey")); string(got) != "new" || err != nil {
		t.Errorf("the key is %q, %v", got, err)
	}
	if _, err := serverkeys.Import(to, &earlier); err == nil ||
		!strings.Contains(err.Error(), "are later than the keys of the archive") {
		t.Errorf("earlier keys: %v", err)
	}
}

func TestRefusedArchives(t *testing.T) {
	pack := func(name string, kind byte) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		if err := w.WriteHeader(&tar.Header{
			Name: name, Typeflag: kind, Mode: 0o600, Size: 0,
			Linkname: "/etc/passwd",
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	for name, archive := range map[string][]byte{
		"above": pack("../manifest.nkey", tar.TypeReg), "elsewhere": pack("broker/../../x.nk", tar.TypeReg),
		"absolute": pack("/broker/x.nk", tar.TypeReg),
		"a link":   pack("broker/server-signer.nk", tar.TypeSymlink), "the database": pack("drover.db", tar.TypeReg),
		"nothing":    empty.Bytes(),
		"no archive": []byte(strings.Repeat("no archive ", 100)),
	} {
		dir := t.TempDir()
		if n, err := serverkeys.Import(dir, bytes.NewReader(archive)); err == nil {
			t.Errorf("%s: %d keys were taken", name, n)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("%s: something was written", name)
		}
	}
	if _, err := serverkeys.Export(t.TempDir(), &bytes.Buffer{}); err == nil {
		t.Error("keys of an empty directory")
	}
}
