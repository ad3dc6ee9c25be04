package term

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// item has one field of each kind.
type item struct {
	Name string   `json:"name"`
	Host host     `json:"host"`
	Tags []string `json:"tags"`
}

type host struct {
	ID    string `json:"id"`
	Cloud int64  `json:"cloud"`
}

func TestPrintPath(t *testing.T) {
	items := []item{
		{"a", host{"h\x1b1", 9007199254740993}, []string{"x", "y"}},
		{"b", host{"<h2>", 0}, nil},
	}
	for at, want := range map[string]string{
		"[*].name":            "a\nb\n",
		"$[*].name":           "a\nb\n",
		"{$[*].name}":         "a\nb\n",
		"{[0].host.cloud}":    "9007199254740993\n",
		"[-1].name":           "b\n",
		"[0]['host'][\"id\"]": "h?1\n",
		"[1].host":            `{"cloud":0,"id":"<h2>"}` + "\n",
		"[*].tags[*]":         "x\ny\n",
		"[0].host.*":          "9007199254740993\nh?1\n",
		"[1].tags":            "null\n",
	} {
		var out bytes.Buffer
		if err := PrintValue(&out, asPath+at, items); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", at, out.String(), err, want)
		}
	}
	for _, at := range []string{"[2].name", "[0].name.more", "name", "[0].nam", "[0].tags[2]"} { // they match nothing
		if err := PrintValue(io.Discard, asPath+at, items); err == nil {
			t.Errorf("%s is accepted", at)
		}
	}
	for _, at := range []string{".", "a..b", "a.", "[", "[x]", "[1", "a]b[", "[0]a", "a[1]b", "{.name", ".name}", "{a}{b}"} {
		if p, err := parsePath(at); err == nil && at != "a]b[" {
			t.Errorf("%q is read as %v", at, p)
		}
	}
}

func TestPrintColumns(t *testing.T) {
	var out bytes.Buffer
	items := []item{{"a", host{"h1", 3}, []string{"x", "y"}}, {"bbb", host{}, nil}}
	if err := printColumns(&out, Output{}, "NAME:.name,WHERE:host.id,TAGS:tags[*]", items); err != nil {
		t.Fatal(err)
	}
	if want := "NAME  WHERE  TAGS\na     h1     x,y\nbbb   -      -\n"; out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	for _, text := range []string{"", "NAME", "NAME:", ":name", "A:a,", "A:a..b"} {
		if _, err := parseColumns(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if strings.Count(out.String(), "\n") != 3 {
		t.Error("a row too many")
	}
}
