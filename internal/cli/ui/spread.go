package ui

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
	"drover/internal/words"
)

// batchesAbove is the number of hosts above which a dialog begins with batches, and careful are its batches.
const (
	batchesAbove = 200
	careful      = "--batch 10% --canary 1 --bake 30s"
)

// spreads reports whether an operation can go through its hosts in batches.
func (d *dialog) spreads() bool {
	return slices.Contains([]string{"restart", "start", "stop", "reload"}, d.op) && d.hosts() > 1 && !d.blocked()
}

// hosts is the number of hosts of the processes.
func (d *dialog) hosts() int {
	if d.held != nil {
		return d.held.Hosts
	}
	hosts := map[string]bool{}
	for _, p := range d.targets {
		hosts[p.Host.ID] = true
	}
	return len(hosts)
}

// proposed is a dialog with batches if they are the better choice.
func (d dialog) proposed() *dialog {
	if d.spreads() && d.hosts() > batchesAbove {
		d.batches = careful
	}
	return &d
}

// askBatches asks for the batches of the operation of the dialog.
func (s State) askBatches() State {
	text := s.dialog.batches
	if text == "" {
		text = careful
	}
	s.prompt = &prompt{kind: 'b', text: text}
	return s
}

// spread takes the batches that a person has typed; none means all hosts at once.
func (s State) spread(text string) State {
	if _, err := planOf(text, s.lang); err != nil {
		s.prompt = &prompt{'b', text, err.Error()}
		return s
	}
	d := *s.dialog
	d.batches = text
	s.dialog = &d
	return s
}

// planOf reads batches as flags of drover restart; nil if there are none.
func planOf(text string, lang words.Lang) (*v1.RolloutPlan, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no batches is a choice
	}
	given, rest, err := flagsIn(text, lang, "batch", "canary", "bake", "max-failures")
	if err == nil && len(rest) > 0 {
		err = errors.New(words.Screen.UnknownFlag.In(lang, "word", rest[0]))
	}
	if err != nil {
		return nil, err
	}
	if given["batch"] == "" {
		return nil, errors.New(words.Screen.NoValue.In(lang, "word", "--batch"))
	}
	var p v1.RolloutPlan
	for flag, value := range given {
		if err := readPlan(&p, flag, value); err != nil {
			return nil, errors.New(words.Screen.BadValue.In(lang, "flag", "--"+flag, "value", value))
		}
	}
	return &p, nil
}

func readPlan(p *v1.RolloutPlan, flag, value string) (err error) {
	switch flag {
	case "batch":
		p.Batch, err = v1.ParseHostCount(value)
	case "max-failures":
		p.MaxFailures, err = v1.ParseHostCount(value)
	case "canary":
		p.Canary, err = strconv.Atoi(value)
	case "bake":
		var d time.Duration
		d, err = term.ParseLength(value)
		p.Bake = v1.Duration(d)
		if d < 0 || d%time.Second != 0 {
			err = strconv.ErrRange
		}
	}
	return err
}

// flagsIn reads flags with values, and the words beside them.
func flagsIn(text string, lang words.Lang, names ...string) (given map[string]string, rest []string, err error) {
	parts, closed := split(text)
	if !closed {
		return nil, nil, errors.New(words.Screen.OpenQuote.In(lang))
	}
	given = map[string]string{}
	for i := 0; i < len(parts); i++ {
		if !strings.HasPrefix(parts[i], "--") {
			rest = append(rest, parts[i])
			continue
		}
		flag, value, whole := strings.Cut(strings.TrimPrefix(parts[i], "--"), "=")
		if !slices.Contains(names, flag) {
			return nil, nil, errors.New(words.Screen.UnknownFlag.In(lang, "word", parts[i]))
		}
		if !whole && i+1 < len(parts) {
			i++
			value = parts[i]
		}
		if value == "" {
			return nil, nil, errors.New(words.Screen.NoValue.In(lang, "word", "--"+flag))
		}
		given[flag] = value
	}
	return given, rest, nil
}
