// Package examples reads the cases of api/examples and plays them against whatever answers HTTP requests. It is for
// tests only, and owns neither the server nor the cases: api/examples/README.md describes their format.
package examples

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Case is one request and the answer to it.
type Case struct {
	// Name is <endpoint>/<case>.
	Name     string
	Request  Request
	Response Response
}

// Request is what is sent. Its strings hold holes as they stand in the file.
type Request struct {
	Method     string            `json:"method"`
	Path       string            `json:"path"`
	Headers    map[string]string `json:"headers"`
	Body       json.RawMessage   `json:"body"`
	Text       string            `json:"text"`
	After      string            `json:"after"`
	Live       bool              `json:"live"`
	Eventually bool              `json:"eventually"`
}

// Response is what the answer has to be.
type Response struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// Load reads all cases below a directory, ordered by name. A file that is no case is an error, so that none is left out
// by mistake.
func Load(dir string) ([]Case, error) {
	var cases []Case
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		short, isRequest := strings.CutSuffix(path, ".request.json")
		answered, isResponse := strings.CutSuffix(path, ".response.json")
		switch {
		case err != nil:
			return err
		case d.IsDir() || filepath.Base(path) == "README.md":
			return nil
		case isResponse:
			if _, err := os.Stat(answered + ".request.json"); err != nil {
				return fmt.Errorf("%s has no request: %w", path, err)
			}
			return nil
		case !isRequest:
			return fmt.Errorf("%s is neither a request nor a response", path)
		}
		name, err := filepath.Rel(dir, short)
		if err != nil {
			return err
		}
		c := Case{Name: filepath.ToSlash(name)}
		if err := readJSON(path, &c.Request); err != nil {
			return err
		}
		if err := readJSON(short+".response.json", &c.Response); err != nil {
			return err
		}
		cases = append(cases, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot load examples: %w", err)
	}
	return cases, nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
