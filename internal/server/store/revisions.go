package store

import (
	"context"
	"errors"
	"time"

	"drover/internal/process"
)

// Limits of the revisions that a store keeps of a namespace. It keeps the latest KeptRevisions, and later ones of the
// retention time up to MostRevisions.
const (
	KeptRevisions = 100
	MostRevisions = 10_000
)

// ErrRevised is returned by CreateTask if a namespace has a later revision than the caller knows.
var ErrRevised = errors.New("the namespace has a later revision")

// Revision is a change of the specs of a namespace, as a caller asked for it and the server accepted it. The revisions
// of a namespace are numbered from 1. Hosts that are away do not have it, nor do hosts whose policy refuses the
// operation.
type Revision struct {
	Namespace string
	Number    int64
	At        time.Time
	App, User string
	// Through is the way of the change, such as v1.ThroughApply; Message is the caller's own text.
	Through, Message string
	// Task is the task that carried the change out. It may have been pruned.
	Task string
	// Changes are in the order of the names.
	Changes []SpecChange
}

// SpecChange is the same change of a process on some hosts. From is nil for a new process, To for a removed one.
// Callers must not change the specs.
type SpecChange struct {
	Name     string
	From, To *process.Spec
	Hosts    int
}

// RevisionFilter selects revisions of one namespace.
type RevisionFilter struct {
	Namespace string
	// Before is a number; 0 comes after all revisions.
	Before int64
	// Sees reports whether the changes on a host count, by the key of the host; nil counts all. If Sees is set, a
	// revision without such a change is left out.
	Sees func(agent string) bool
}

// Placed is a process on one host, with the spec that it has by a revision.
type Placed struct {
	Name, Agent string
	Spec        *process.Spec
}

// Revisions holds the revisions of namespaces. CreateTask makes them: one for each namespace in which a task changes,
// adds or removes a spec. Two tasks never get the same number, also on several servers.
type Revisions interface {
	// LatestRevision returns the number of the latest revision of a namespace; 0 if there is none.
	LatestRevision(ctx context.Context, namespace string) (int64, error)
	// ListRevisions returns up to limit revisions, newest first. next is the RevisionFilter.Before of the next page; 0
	// if no more revisions can follow. If the changes are many, it returns fewer revisions.
	ListRevisions(ctx context.Context, f RevisionFilter, limit int) (rows []Revision, next int64, err error)
	// PlacedAt returns the processes of a namespace as they are by a revision, by name and agent. The spec of each has
	// the number of the revision that brought it. It returns ErrNotFound for a revision that the store does not have.
	PlacedAt(ctx context.Context, namespace string, revision int64) ([]Placed, error)
	// RevisedSpecs returns the specs that two revisions brought to a process on one host. A spec is nil if the revision
	// did not change it, or is not kept.
	RevisedSpecs(ctx context.Context, id process.ID, agent string, former, revision int64) (from, to *process.Spec,
		err error)
	// OpenRevision returns the id of an unfinished task that changes specs of the namespace; empty if there is none.
	OpenRevision(ctx context.Context, namespace string) (task string, err error)
	// PruneRevisions removes up to limit revisions from before the given time, oldest first, which are not among the
	// latest KeptRevisions of their namespace, and those beyond the latest MostRevisions. It returns their number.
	PruneRevisions(ctx context.Context, before time.Time, limit int) (int, error)
}
