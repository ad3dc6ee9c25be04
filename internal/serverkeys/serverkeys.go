// Package serverkeys copies the keys of a server to another server of the same fleet: the keys that seal orders,
// issue credentials and sign certificates. It owns the list of key files and the archive that carries them; the users
// of the keys own their meaning.
package serverkeys

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drover/internal/durable"
)

const (
	// mostBytes and mostFiles are far more than the keys of a fleet need.
	mostBytes = 1 << 20
	mostFiles = 200
	// account names the fleet, and stages lists the valid keys.
	account = "broker/account.pub"
	stages  = "keys.json"
)

// ours reports whether a path below the directory of a server, with slashes, is one of its keys.
func ours(name string) bool {
	dir, file := path.Split(name)
	if strings.HasPrefix(file, ".") {
		return false
	}
	switch dir {
	case "":
		return strings.HasSuffix(file, ".nkey") || name == stages
	case "broker/":
		return strings.HasSuffix(file, ".nk") || strings.HasSuffix(file, ".pub")
	case "pki/":
		return strings.HasSuffix(file, ".key") || strings.HasSuffix(file, ".pem")
	default:
		return false
	}
}

// list returns the keys below the directory of a server, in order.
func list(dir string) ([]string, error) {
	var names []string
	for _, sub := range []string{".", "broker", "pki"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name := path.Join(sub, e.Name()); e.Type().IsRegular() && ours(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Export writes the keys below the directory of a server into an archive, and returns their number. It fails if there
// are none. A reader of the archive can command the fleet.
func Export(dir string, out io.Writer) (int, error) {
	names, err := list(dir)
	if err != nil {
		return 0, fmt.Errorf("cannot read keys: %w", err)
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("no keys in %s: a server makes its keys at its first start", dir)
	}
	w := tar.NewWriter(out)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, fmt.Errorf("cannot read keys: %w", err)
		}
		header := &tar.Header{
			Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: time.Unix(0, 0),
			Format: tar.FormatUSTAR,
		}
		err = w.WriteHeader(header)
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return 0, fmt.Errorf("cannot write archive: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return 0, fmt.Errorf("cannot write archive: %w", err)
	}
	return len(names), nil
}

// Import writes the keys of an archive below the directory of a server and returns the number of new keys. No server
// may use the directory meanwhile. Import updates older keys of the same fleet. It changes nothing if the directory has
// later keys or keys of another fleet, or if the archive holds anything but keys.
func Import(dir string, in io.Reader) (int, error) {
	files, err := unpack(in)
	if err != nil {
		return 0, err
	}
	there, err := list(dir)
	if err != nil {
		return 0, fmt.Errorf("cannot read keys: %w", err)
	}
	held := map[string][]byte{}
	for _, name := range there {
		if held[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return 0, fmt.Errorf("cannot read keys: %w", err)
		}
	}
	if own, ok := held[account]; ok && !bytes.Equal(own, files[account]) {
		return 0, fmt.Errorf("%s has the keys of another fleet: nothing was changed; use a new data directory", dir)
	}
	if revision(held[stages]) > revision(files[stages]) {
		return 0,
			fmt.Errorf(
				"the keys in %s are later than the keys of the archive: nothing was changed; export the keys again",
				dir)
	}
	written := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if bytes.Equal(held[name], files[name]) {
			continue
		}
		if err := write(filepath.Join(dir, filepath.FromSlash(name)), files[name]); err != nil {
			return written, fmt.Errorf("cannot write keys: %w", err)
		}
		written++
	}
	return written, nil
}

// revision returns the revision of a stages file; 0 if there is none.
func revision(file []byte) int64 {
	var s struct {
		Revision int64 `json:"revision"`
	}
	if json.Unmarshal(file, &s) != nil {
		return 0
	}
	return s.Revision
}

// unpack reads an archive into memory.
func unpack(in io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	r := tar.NewReader(io.LimitReader(in, 2*mostBytes))
	total := 0
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not an archive of 'drover server keys export': %w", err)
		}
		if header.Typeflag != tar.TypeReg || !ours(header.Name) || len(files) == mostFiles {
			return nil, fmt.Errorf("not an archive of 'drover server keys export': it holds %.100q", header.Name)
		}
		data, err := io.ReadAll(io.LimitReader(r, mostBytes))
		if err != nil {
			return nil, fmt.Errorf("cannot read archive: %w", err)
		}
		if total += len(data); total > mostBytes {
			return nil, errors.New("not an archive of 'drover server keys export': it is too large")
		}
		files[header.Name] = data
	}
	if len(files) == 0 {
		return nil, errors.New("not an archive of 'drover server keys export': it holds no keys")
	}
	if files[account] == nil {
		return nil, errors.New("not an archive of 'drover server keys export': the key of the fleet is missing")
	}
	return files, nil
}

// write writes a file of mode 0600 in a directory of mode 0700, completely or not at all.
func write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return durable.Replace(name, data, 0o600)
}
