package operationtest

import (
	"encoding/json"
	"sync"

	"drover/internal/agent/record"
)

// Journal keeps the progress of operations in memory, as the bytes that a disk would hold.
type Journal struct {
	// OnPut is called before (stored is false) and after every write; ReadError and WriteError fail the calls when they
	// are set.
	OnPut      func(item string, p record.Progress, stored bool)
	ReadError  error
	WriteError error

	mu    sync.Mutex
	items map[string][]byte
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{items: map[string][]byte{}} }

// GetProgress implements operation.Journal.
func (j *Journal) GetProgress(item string) (record.Progress, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var p record.Progress
	if j.ReadError != nil {
		return p, j.ReadError
	}
	data, ok := j.items[item]
	if !ok {
		return p, nil
	}
	return p, json.Unmarshal(data, &p)
}

// PutProgress implements operation.Journal.
func (j *Journal) PutProgress(item string, p record.Progress) error {
	j.observe(item, p, false)
	if err := j.put(item, p); err != nil {
		return err
	}
	j.observe(item, p, true)
	return nil
}

func (j *Journal) observe(item string, p record.Progress, stored bool) {
	if j.OnPut != nil {
		j.OnPut(item, p, stored)
	}
}

func (j *Journal) put(item string, p record.Progress) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.WriteError != nil {
		return j.WriteError
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	j.items[item] = data
	return nil
}

// DropProgress forgets an item.
func (j *Journal) DropProgress(item string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.items, item)
	return nil
}
