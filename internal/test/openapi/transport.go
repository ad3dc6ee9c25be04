package openapi

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// Client compares every exchange that goes through it with the document, and fails the test at a difference.
type Client struct {
	t        testing.TB
	document *Document
	inner    Doer
}

// Doer carries a request; *http.Client is one.
type Doer interface {
	Do(r *http.Request) (*http.Response, error)
}

// NewClient returns a client that sends through inner. It fails the test if the document cannot be read.
func NewClient(t testing.TB, inner Doer) *Client {
	t.Helper()
	document, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return &Client{t, document, inner}
}

// Do sends the request and returns the reply, whose body can be read as if nobody had.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	c.t.Helper()
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := c.inner.Do(r)
	if err != nil {
		return nil, err
	}
	reply, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(reply))
	differences, _ := c.document.Check(Exchange{
		Method: r.Method, Path: r.URL.Path, Request: sent,
		Status: resp.StatusCode, Reply: reply,
	})
	for _, d := range differences {
		c.t.Errorf("not as in openapi.yaml: %s", d)
	}
	return resp, nil
}
