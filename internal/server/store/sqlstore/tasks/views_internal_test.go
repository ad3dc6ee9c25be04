package tasks

import (
	"fmt"
	"testing"

	"drover/internal/server/store"
)

func TestViewCache(t *testing.T) {
	var c viewCache
	put := func(id string, first int64, n int) {
		c.put(viewKey{1, id}, requestViews{first: first, views: make([]store.ItemView, n)})
	}
	put("a", 7, mostViews/2)
	put("b", 8, mostViews/2)
	for id, first := range map[string]int64{"a": 7, "b": 8} {
		if r, ok := c.get(viewKey{1, id}); !ok || r.first != first || len(r.views) != mostViews/2 {
			t.Errorf("%s is %v, begins with %d and has %d views", id, ok, r.first, len(r.views))
		}
	}
	if _, ok := c.get(viewKey{2, "a"}); ok {
		t.Error("another task of the same id is known")
	}
	put("c", 9, 1)
	put("too many", 10, mostViews+1)
	for i := range 3 * mostViews {
		put(fmt.Sprint(i), 1, 1)
		put(fmt.Sprint(i), 1, 1)
		if len(c.tasks) > mostViews || c.count != len(c.tasks) {
			t.Fatalf("%d tasks are remembered, counted %d", len(c.tasks), c.count)
		}
	}
}
