package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// person has somebody who is signed in to the console, and has no right.
func person(ctx context.Context, p plan, done *tally) (begin func(), err error) {
	c := newClient(p, "127.68.0.1", "")
	if c.http.Jar, err = cookiejar.New(nil); err != nil {
		return nil, err
	}
	link, err := url.Parse(p.Link)
	if err != nil {
		return nil, err
	}
	if err := c.submit(ctx, "/ui/login", url.Values{"code": {link.Fragment}}); err != nil {
		return nil, err
	}
	own, err := url.Parse(p.URL)
	if err != nil {
		return nil, err
	}
	if len(c.http.Jar.Cookies(own)) == 0 {
		return nil, fmt.Errorf("%s signs nobody in", p.Link)
	}
	var lines strings.Builder
	for i := range 150_000 {
		fmt.Fprintf(&lines, "k%d: 1\n", i)
	}
	var ways []way
	for name, text := range map[string]string{
		"files of brackets": strings.Repeat("[", 120_000),
		"files of braces":   strings.Repeat("{a: ", 40_000),
		"files of lines":    lines.String(),
		"files of anchors":  strings.Repeat("&a ", 40_000),
	} {
		for _, step := range []string{"plan", "confirm"} {
			form := url.Values{"ns": {"mine"}, "text": {text}, "step": {step}}
			ways = append(ways, way{name, func(ctx context.Context) error { return c.submit(ctx, "/ui/apply", form) }})
		}
	}
	return func() {
		for i := range atATime {
			go repeat(ctx, rand.New(rand.NewPCG(p.Seed, uint64(i))), done, ways)
		}
	}, nil
}

// submit sends a form of the console and reads the answer.
func (c *client) submit(ctx context.Context, path string, form url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
