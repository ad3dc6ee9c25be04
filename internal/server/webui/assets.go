package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// files are the style sheet and the scripts of all pages. Their path has a hash of all of them: a browser keeps them as
// long as it likes, and imports between scripts stay within one version.
type files struct {
	version string
	of      map[string]file
}

type file struct {
	kind         string
	plain, small []byte // small is compressed by gzip
}

// readFiles reads and compresses the files of the directory assets.
func readFiles(from fs.FS) (files, error) {
	all, sum := files{of: map[string]file{}}, sha256.New()
	list, err := fs.ReadDir(from, "assets")
	if err != nil {
		return files{}, err
	}
	for _, entry := range list {
		plain, err := fs.ReadFile(from, "assets/"+entry.Name())
		if err != nil {
			return files{}, err
		}
		var small bytes.Buffer
		w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
		if err == nil {
			_, err = w.Write(plain)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			return files{}, err
		}
		kind := mime.TypeByExtension(filepath.Ext(entry.Name()))
		all.of[entry.Name()] = file{kind: kind, plain: plain, small: small.Bytes()}
		_, _ = sum.Write(append([]byte(entry.Name()+"\x00"), plain...)) // a hash takes all
	}
	all.version = hex.EncodeToString(sum.Sum(nil))[:16]
	return all, nil
}

// url is the path of a file.
func (f files) url(name string) string { return Prefix + "assets/" + f.version + "/" + name }

// ServeHTTP implements http.Handler. A page of another version of the server gets the file of this one, which the
// browser then does not keep.
func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, there := f.of[r.PathValue("name")]
	if !there {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Type", one.kind)
	header.Set("Vary", "Accept-Encoding")
	if r.PathValue("version") == f.version {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	data := one.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		data = one.small
	}
	header.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the browser has hung up
}
