// Package statusjson reads the statuses of many rows. The store wrote their JSON with encoding/json. So a faster
// parser, which takes a quarter of the time, can read the fields that most rows have. encoding/json reads a text with
// another field.
package statusjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"drover/internal/process"
)

// Reader reads statuses one after another. It remembers the last one, because the next one mostly has the same texts.
// Its zero value is ready; it is not safe for concurrent use.
type Reader struct{ last process.Status }

// Read returns the status that json.Marshal has made a text of.
func (r *Reader) Read(text []byte) (process.Status, error) {
	var s process.Status
	if !eachMember(text, func(key, value []byte) bool { return r.field(&s, key, value) }) {
		s = process.Status{}
		if err := json.Unmarshal(text, &s); err != nil {
			return process.Status{}, fmt.Errorf("cannot decode status: %w", err)
		}
	}
	r.last = s
	return s, nil
}

func (r *Reader) field(s *process.Status, key, value []byte) bool {
	switch string(key) {
	case "known":
		return readFlag(&s.Known, value)
	case "hosted":
		return readFlag(&s.Hosted, value)
	case "want":
		return readText(&s.Want, r.last.Want, value)
	case "revision":
		return readInteger(&s.Revision, value)
	case "state":
		return readText(&s.State, r.last.State, value)
	case "message":
		return readText(&s.Message, r.last.Message, value)
	case "proc_name":
		return readText(&s.ProcName, r.last.ProcName, value)
	case "restarts":
		return readInteger(&s.Restarts, value)
	case "flapping":
		return readFlag(&s.Flapping, value)
	case "cause":
		return readAny(&s.Cause, value)
	case "further":
		return readAny(&s.Further, value)
	case "last_exit":
		return readAny(&s.LastExit, value)
	case "health":
		return readAny(&s.Health, value)
	case "version":
		return readAny(&s.Version, value)
	case "config":
		return readAny(&s.Config, value)
	case "usage":
		return readAny(&s.Usage, value)
	case "next_run":
		return readInteger(&s.NextRun, value)
	case "runs":
		return readAny(&s.Runs, value)
	case "registered_at":
		return readInteger(&s.RegisteredAt, value)
	case "last_start_at":
		return readInteger(&s.LastStartAt, value)
	case "reported_at":
		return readInteger(&s.ReportedAt, value)
	case "instance":
		return eachMember(value, func(key, value []byte) bool { return r.instance(&s.Instance, key, value) })
	default:
		return false
	}
}

func (r *Reader) instance(i *process.Instance, key, value []byte) bool {
	last := &r.last.Instance
	switch string(key) {
	case "pid":
		return readInteger(&i.PID, value)
	case "cmdline":
		return readText(&i.Cmdline, last.Cmdline, value)
	case "stat":
		return readText(&i.Stat, last.Stat, value)
	case "started_at":
		return readInteger(&i.StartedAt, value)
	case "elapsed":
		return readInteger(&i.Elapsed, value)
	case "cpu":
		return readNumber(&i.CPU, value)
	case "cpu_average":
		return readNumber(&i.CPUAverage, value)
	case "mem":
		return readNumber(&i.Mem, value)
	case "rss":
		return readInteger(&i.RSS, value)
	case "vsize":
		return readInteger(&i.VSize, value)
	case "user_time":
		return readNumber(&i.UserTime, value)
	case "system_time":
		return readNumber(&i.SystemTime, value)
	case "threads":
		return readInteger(&i.Threads, value)
	case "version":
		return readText(&i.Version, last.Version, value)
	case "health":
		return readText(&i.Health, last.Health, value)
	case "revision":
		return readInteger(&i.Revision, value)
	default:
		return false
	}
}

// eachMember calls field with each member of a JSON object without spaces. It returns false if the text is not such an
// object, and as soon as field returns false.
func eachMember(text []byte, field func(key, value []byte) bool) bool {
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return false
	}
	if len(text) == 2 {
		return true
	}
	for rest := text[1:]; ; rest = rest[1:] {
		key := valueEnd(rest)
		if key < 2 || rest[0] != '"' || key == len(rest) || rest[key] != ':' {
			return false
		}
		name := rest[1 : key-1]
		rest = rest[key+1:]
		end := valueEnd(rest)
		if end == 0 || end == len(rest) || !field(name, rest[:end]) {
			return false
		}
		switch rest = rest[end:]; {
		case rest[0] == '}':
			return len(rest) == 1
		case rest[0] != ',':
			return false
		}
	}
}

// valueEnd returns the length of the JSON value at the start of the text; 0 if the value has no end.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) {
				return 0
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return 0
}

// readAny reads a rare value.
func readAny(v any, text []byte) bool { return json.Unmarshal(text, v) == nil }

func readText[T ~string](v *T, last T, text []byte) bool {
	if len(text) < 2 || text[0] != '"' {
		return false
	}
	inner := text[1 : len(text)-1]
	if bytes.IndexByte(inner, '\\') >= 0 || !utf8.Valid(inner) {
		return readAny(v, text)
	}
	if *v = last; string(inner) != string(last) {
		*v = T(inner)
	}
	return true
}

func readFlag(v *bool, text []byte) bool {
	*v = string(text) == "true"
	return *v || string(text) == "false"
}

func readInteger[T int | int64 | uint64](v *T, text []byte) bool {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*v = T(n)
	return err == nil
}

func readNumber(v *float64, text []byte) (ok bool) {
	n, err := strconv.ParseFloat(string(text), 64)
	*v = n
	return err == nil
}
