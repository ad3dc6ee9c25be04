package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"drover/internal/gse"
	"drover/internal/server/audit"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// result answers the poll of a GSE task: every requested key, in every answer.
func (s *server) result(ctx context.Context, c *call) (payload, error) {
	task, err := gse.ReadResult(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.Audit.Target = edge.Clip(task)
	if c.endTurn, err = s.Rooms.Turn(ctx); err != nil {
		return nil, failure("read the task", err)
	}
	return func(w *jsonWriter) error {
		w.raw("{")
		err := s.entries(ctx, c, task, w, func(it gse.Item) gse.Entry { return gse.Result(it, s.Now()) })
		w.raw("}")
		return err
	}, nil
}

// jobResult answers the poll of a JOB task.
func (s *server) jobResult(ctx context.Context, c *call) (payload, error) {
	task, err := gse.ReadJobResult(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.Audit.Target = edge.Clip(task)
	if c.endTurn, err = s.Rooms.Turn(ctx); err != nil {
		return nil, failure("read the task", err)
	}
	return func(w *jsonWriter) error {
		status := gse.CodeSuccess
		w.raw(`{"result":{`)
		err := s.entries(ctx, c, task, w, func(it gse.Item) gse.Entry {
			e := gse.JobResult(it, s.Now())
			if e.ErrorCode == gse.CodeHandling {
				status = gse.CodeHandling
			}
			return e
		})
		w.raw(fmt.Sprintf(`},"status":%d}`, status))
		return err
	}, nil
}

// entries writes the members of a result map, one for each key of the task, in the order of the store.
func (s *server) entries(ctx context.Context, c *call, task string, w *jsonWriter,
	entry func(gse.Item) gse.Entry,
) error {
	err := s.items(ctx, c, task, w, entry)
	if denied, ok := errors.AsType[*edge.DeniedError](err); ok {
		return lacks(c, denied.Missing)
	}
	switch refused := (*refusal)(nil); {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return refusef(unknownTask, "task_id %q does not exist", audit.Clip(task, 100))
	case errors.As(err, &refused):
		return err
	default:
		return failure("read the task", err)
	}
}

// items writes the members. For an administrator it writes while it reads. For others it must check every item before
// it sends anything, so it holds the members in memory. If they need too much memory, it reads the task once more. The
// turn of the call ends before anything is sent.
func (s *server) items(ctx context.Context, c *call, task string, w *jsonWriter, entry func(gse.Item) gse.Entry) error {
	read := func(fn func(store.ItemView) error) error { return s.Tasks.TaskItems(ctx, task, c.Principal.App, fn) }
	if c.Principal.Admin {
		first := &firstWriter{out: w.out, late: c.endTurn}
		fw := newJSONWriter(bufio.NewWriterSize(first, replyBuffer))
		err := readAhead(read, memberWriter(c, fw, entry))
		if err == nil {
			err = fw.out.Flush()
		}
		if err == nil {
			err = first.send()
		}
		return err
	}
	grow, release := s.Rooms.Keep(c.Principal.App) //nolint:contextcheck // it never waits
	defer release()
	held := &heldWriter{grow: grow}
	hw := newJSONWriter(bufio.NewWriterSize(held, replyBuffer))
	members := memberWriter(c, hw, entry)
	err := s.Results(ctx, c.Call, task, c.Principal.App, s.viewHost, func(v store.ItemView) error {
		return members(&v)
	})
	if err == nil {
		err = hw.out.Flush()
	}
	c.endTurn()
	if err == nil {
		return held.writeTo(w.out)
	}
	c.Audit.Targets = 0
	if !errors.Is(err, errTooLarge) {
		return err
	}
	release()
	return readAhead(read, memberWriter(c, w, entry))
}

// memberWriter returns the function that writes the member of one item.
func memberWriter(c *call, w *jsonWriter, entry func(gse.Item) gse.Entry) func(v *store.ItemView) error {
	seq := sequence{w: w}
	return func(v *store.ItemView) error {
		c.Audit.Targets++
		it := gse.Item{
			Asked: v.Spelling, IP: v.IP,
			Op: v.Op, Process: v.Process,
			ProcName: v.ProcName, SetupPath: v.SetupPath, FuncID: v.FuncID, InstanceID: v.InstanceID,
		}
		if v.Done {
			it.Outcome = v.Outcome
		}
		return seq.member(v.ItemKey, entry(it))
	}
}

// errTooLarge means that there is no memory to hold the results.
var errTooLarge = errors.New("too many results to hold")

// heldWriter holds the written data while grow finds memory for it.
type heldWriter struct {
	parts [][]byte
	size  int64
	grow  func(size int64) bool
}

// Write implements io.Writer.
func (h *heldWriter) Write(p []byte) (int, error) {
	if h.size += int64(len(p)); !h.grow(h.size) {
		h.parts = nil
		return 0, errTooLarge
	}
	h.parts = append(h.parts, bytes.Clone(p))
	return len(p), nil
}

// writeTo writes the held data, and frees each part once it is written.
func (h *heldWriter) writeTo(w io.Writer) error {
	for i, p := range h.parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
		h.parts[i] = nil
	}
	return nil
}

// firstHeld is how many bytes of results an administrator waits for, in a turn. The results of most tasks are smaller.
const firstHeld = 1 << 20

// firstWriter holds what is written first. It sends that, and all that follows at once, when there is more than
// firstHeld or when send is called. It calls late before it sends anything.
type firstWriter struct {
	buffer bytes.Buffer
	sent   bool
	out    io.Writer
	late   func()
}

// Write implements io.Writer.
func (f *firstWriter) Write(p []byte) (int, error) {
	if !f.sent && f.buffer.Len()+len(p) <= firstHeld {
		return f.buffer.Write(p)
	}
	if err := f.send(); err != nil {
		return 0, err
	}
	return f.out.Write(p)
}

func (f *firstWriter) send() error {
	if f.sent {
		return nil
	}
	f.late()
	f.sent = true
	_, err := f.buffer.WriteTo(f.out)
	f.buffer = bytes.Buffer{}
	return err
}
