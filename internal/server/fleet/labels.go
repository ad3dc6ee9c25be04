package fleet

import (
	"context"
	"fmt"
	"maps"

	"drover/internal/selector"
	"drover/internal/server/store"
)

// LabelsError is returned by Label for a host that would have too many labels.
type LabelsError struct{ Host store.Agent }

// Error returns the text for an operator.
func (e *LabelsError) Error() string {
	return fmt.Sprintf("host %d:%s would have more than %d labels set by people", e.Host.Cloud, e.Host.IP,
		selector.MaxLabels)
}

// Label sets and removes labels of hosts as a person wishes, on all of them or on none. A removed label is hidden if
// the token or the host's own file has it, too. Label returns store.ErrNotFound for an unknown key, and *LabelsError.
func (d *Directory) Label(ctx context.Context, keys []string, set map[string]string, remove []string) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	changed := map[string]map[string]*string{}
	err := d.agents.LabelAgents(ctx, keys, func(a store.Agent) (map[string]*string, error) {
		labels := Relabelled(a, set, remove).SetLabels
		if len(labels) > selector.MaxLabels {
			return nil, &LabelsError{a}
		}
		changed[a.Key] = labels
		return labels, nil
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	for key, labels := range changed {
		if a, known := d.byKey[key]; known {
			a.SetLabels = labels
			d.register(a)
		}
	}
	d.mu.Unlock()
	for _, key := range keys {
		d.changed(key)
	}
	return nil
}

// Relabelled returns a host with labels set and removed as Label does it. It changes nothing.
func Relabelled(a store.Agent, set map[string]string, remove []string) store.Agent {
	labels := maps.Clone(a.SetLabels)
	if labels == nil {
		labels = map[string]*string{}
	}
	for _, key := range remove {
		_, joined := a.Labels[key]
		_, own := a.Host.Labels[key]
		if delete(labels, key); joined || own {
			labels[key] = nil
		}
	}
	for key, value := range set {
		labels[key] = &value
	}
	if a.SetLabels = labels; len(labels) == 0 {
		a.SetLabels = nil
	}
	return a
}

// SameLabels reports whether people have set the same labels of two agents.
func SameLabels(a, b store.Agent) bool {
	return maps.EqualFunc(a.SetLabels, b.SetLabels, func(x, y *string) bool {
		return x == nil && y == nil || x != nil && y != nil && *x == *y
	})
}

// setLabels returns the labels that people have set.
func (d *Directory) setLabels(key string) map[string]*string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byKey[key].SetLabels
}
