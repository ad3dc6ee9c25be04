package broker

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxPerUser is the largest number of connections of one user. An agent has one; the broker may also hold a few
	// lost connections for a moment.
	maxPerUser = 8
	// countInterval is the interval at which connections are counted. They are checked after a growth of listGrowth,
	// soon after some were closed, because more may have been on their way, and occasionally.
	countInterval = time.Second
	listGrowth    = 4 * maxPerUser
	listAgain     = 5 * time.Second
	listInterval  = time.Minute
	// listRest bounds the cost of the checks: the next check waits this many times as long as the last one took. A
	// check verifies the token of every connection again, some 0.1 ms each. While a large fleet connects, checks each
	// second would take a processor.
	listRest = 10
)

// limitConnections closes connections of users with too many, until the server ends. Each connection takes memory, and
// the place of another client.
func limitConnections(srv *server.Server, log *slog.Logger) {
	ended := make(chan struct{})
	go func() {
		srv.WaitForShutdown()
		close(ended)
	}()
	look := time.NewTicker(countInterval)
	defer look.Stop()
	var due time.Time // no check before
	for looked, wait, left := time.Now(), listInterval, 0; ; {
		select {
		case <-ended:
			return
		case <-look.C:
		}
		began := time.Now()
		n := srv.NumClients()
		if began.Before(due) || n < maxPerUser || n < left+listGrowth && began.Sub(looked) < wait {
			continue
		}
		var closed bool
		left, closed = closeExcess(srv, log)
		if looked, wait = time.Now(), listInterval; closed {
			wait = listAgain
		}
		due = looked.Add(listRest * looked.Sub(began))
	}
}

// closeExcess closes the latest connections of users with too many. It returns the number of connections left, and
// whether it closed any.
func closeExcess(srv *server.Server, log *slog.Logger) (left int, closed bool) {
	list, err := srv.Connz(&server.ConnzOptions{Username: true, Limit: srv.NumClients() + listGrowth})
	if err != nil { // only invalid options are an error
		log.Error("cannot list connections", "error", err)
		return 0, false
	}
	byUser := map[string][]*server.ConnInfo{}
	for _, conn := range list.Conns {
		if conn.AuthorizedUser != "" {
			byUser[conn.AuthorizedUser] = append(byUser[conn.AuthorizedUser], conn)
		}
	}
	left = len(list.Conns)
	for user, conns := range byUser {
		if len(conns) <= maxPerUser {
			continue
		}
		slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return cmp.Compare(a.Cid, b.Cid) })
		log.Warn("closed connections: one user has too many", "user", user, "connections", len(conns),
			"most", maxPerUser)
		for _, conn := range conns[maxPerUser:] {
			// This fails only if the connection has ended meanwhile.
			_ = srv.DisconnectClientByID(conn.Cid)
		}
		left -= len(conns) - maxPerUser
		closed = true
	}
	return left, closed
}
