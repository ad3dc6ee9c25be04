package postgres_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"

	"drover/internal/server/store"
	"drover/internal/server/store/postgres"
	"drover/internal/server/store/storetest"
	"drover/internal/test/pgtest"
)

// server is the PostgreSQL that the tests of this package share.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &server)) }

// fresh makes a database with an up-to-date schema and returns its URL.
var fresh = sync.OnceValue(func() func(testing.TB) string {
	const template = "template_drover"
	err := server.Exec("CREATE DATABASE " + template)
	if err != nil {
		return func(tb testing.TB) string { tb.Helper(); tb.Fatal(err); return "" }
	}
	db, err := postgres.Open(context.Background(), server.URL(template), slog.New(slog.DiscardHandler))
	if err == nil {
		err = db.Close()
	}
	return func(tb testing.TB) string {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return server.Ready(tb, template)
	}
})

func open(tb testing.TB, url string, options ...postgres.Option) *postgres.DB {
	tb.Helper()
	db, err := postgres.Open(context.Background(), url, slog.New(slog.DiscardHandler), options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		t.Helper()
		return open(t, fresh()(t))
	})
}

func TestEveryStatementRuns(t *testing.T) { storetest.Use(t, open(t, fresh()(t))) }
