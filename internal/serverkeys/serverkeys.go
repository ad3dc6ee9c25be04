// Package serverkeys carries the keys of a server to another one of the same fleet: those that sign orders, issue credentials and vouch
// for certificates. It owns which files these are and the archive that they travel in; what they mean is known to those who use them.
package serverkeys

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// mostBytes and mostFiles are far more than the keys of a fleet need.
	mostBytes = 1 << 20
	mostFiles = 200
)

// ours reports whether a path below the directory of a server, with slashes, is one of its keys.
func ours(name string) bool {
	dir, file := path.Split(name)
	if strings.HasPrefix(file, ".") {
		return false
	}
	switch dir {
	case "":
		return strings.HasSuffix(file, ".nkey")
	case "broker/":
		return strings.HasSuffix(file, ".nk")
	case "pki/", "trust/":
		return true
	default:
		return false
	}
}

// list returns the keys below the directory of a server, in order.
func list(dir string) ([]string, error) {
	var names []string
	for _, sub := range []string{".", "broker", "pki", "trust"} {
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

// Export writes the keys below the directory of a server into an archive, and returns how many there are. It fails where there are none.
// Whoever can read the archive commands the fleet.
func Export(dir string, out io.Writer) (int, error) {
	names, err := list(dir)
	if err != nil {
		return 0, fmt.Errorf("cannot read keys: %w", err)
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("there are no keys in %s: a server makes them at its first start", dir)
	}
	w := tar.NewWriter(out)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, fmt.Errorf("cannot read keys: %w", err)
		}
		header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
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

// Import puts the keys of an archive below the directory of a server, which no server may use meanwhile, and returns how many were new. It
// changes nothing where a key is there already that is another one, or where the archive holds anything else than keys.
func Import(dir string, in io.Reader) (int, error) {
	files, err := unpack(in)
	if err != nil {
		return 0, err
	}
	there, err := list(dir)
	if err != nil {
		return 0, fmt.Errorf("cannot read keys: %w", err)
	}
	for _, name := range there {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, fmt.Errorf("cannot read keys: %w", err)
		}
		if wanted, ok := files[name]; !ok || !bytes.Equal(wanted, data) {
			return 0, fmt.Errorf("%s has keys of its own, of another server (%s): nothing was changed; take a new data directory", dir, name)
		}
		delete(files, name)
	}
	for name, data := range files {
		if err := write(filepath.Join(dir, filepath.FromSlash(name)), data); err != nil {
			return 0, fmt.Errorf("cannot write keys: %w", err)
		}
	}
	return len(files), nil
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
			return nil, fmt.Errorf("it is no archive of 'drover server keys export': %w", err)
		}
		if header.Typeflag != tar.TypeReg || !ours(header.Name) || len(files) == mostFiles {
			return nil, fmt.Errorf("it is no archive of 'drover server keys export': it holds %.100q", header.Name)
		}
		data, err := io.ReadAll(io.LimitReader(r, mostBytes))
		if err != nil {
			return nil, fmt.Errorf("cannot read archive: %w", err)
		}
		if total += len(data); total > mostBytes {
			return nil, errors.New("it is no archive of 'drover server keys export': it is too large")
		}
		files[header.Name] = data
	}
	if len(files) == 0 {
		return nil, errors.New("it is no archive of 'drover server keys export': it holds no keys")
	}
	return files, nil
}

// write makes a synced file of mode 0600 in a directory of mode 0700, whole or not at all.
func write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".import-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has another name by then, or the error is returned
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
