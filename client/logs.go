package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
)

// LogFilter selects lines of the log of a process. An empty field matches all.
type LogFilter struct {
	// Hosts are ids or cloud:ip, or patterns of either.
	Hosts []string
	// Selector is an expression about labels and facts of hosts.
	Selector string
	ProcessChoice
	// Stream is one of the streams of package v1, such as StreamStderr.
	Stream string
	// Run is 0 for the present or last run, -1 for the run before. With Since and without Run, all runs count.
	Run   int
	Since time.Time
	// Tail is the largest number of lines of each log; 0 means no limit. Grep is a regular expression (RE2).
	Tail int
	Grep string
	// Follow asks also for each line that is written later, of later runs, too. OnlyNew leaves out the lines before.
	Follow, OnlyNew bool
	// Begun is called once before the first line, with the number of hosts, and the number of logs: a process has one
	// for each of its copies on a host. It may be nil.
	Begun func(hosts, logs int)
}

func (f *LogFilter) query() url.Values {
	query := url.Values{}
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	f.ProcessChoice.set(query)
	set(query, "stream", f.Stream)
	set(query, "grep", f.Grep)
	for name, n := range map[string]int{"run": f.Run, "tail": f.Tail} {
		if n != 0 {
			query.Set(name, strconv.Itoa(n))
		}
	}
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if f.Follow {
		query.Set("follow", "true")
	}
	if f.OnlyNew {
		query.Set("tail", "0")
	}
	return query
}

// Logs yields what a process and its copies wrote. The lines of each log are in their order; logs are mixed. It ends at
// the end of the logs. If it follows them, it ends with ctx, or with an *UnreachableError.
func (c *Client) Logs(ctx context.Context, namespace, name string, f LogFilter) iter.Seq2[v1.LogLine, error] {
	return func(yield func(v1.LogLine, error) bool) {
		take := func(l v1.LogLine) bool { return yield(l, nil) }
		if err := c.readLogs(ctx, at(v1.RouteReadLogs, namespace, name), f, take); err != nil {
			yield(v1.LogLine{}, err)
		}
	}
}

// readLogs calls take for each line until take returns false.
func (c *Client) readLogs(ctx context.Context, path place, f LogFilter, take func(v1.LogLine) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, path, f.query(), nil)
	if err != nil {
		return err
	}
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := c.http.Do(req)
	if err != nil {
		return c.lost(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nobody wants the rest
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode >= http.StatusBadRequest ||
		!strings.HasPrefix(kind, "application/x-ndjson") {
		data, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply))
		return c.refusal(resp, data)
	}
	if hosts, err := strconv.Atoi(resp.Header.Get("X-Drover-Hosts")); err == nil && f.Begun != nil {
		logs, _ := strconv.Atoi(resp.Header.Get("X-Drover-Logs"))
		f.Begun(hosts, logs)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		watch.Stop() // the reader may take its time for a line
		if len(lines.Bytes()) > 0 {
			var l v1.LogLine
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				return fmt.Errorf("cannot read a line of a log of %s: %w", c.name, err)
			}
			if !take(l) {
				return nil
			}
		}
		watch.Reset(silence)
	}
	if err := lines.Err(); err != nil {
		return c.lost(ctx, err)
	}
	return nil
}
